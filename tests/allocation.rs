//! A repeated step allocates nothing on the host.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use etvk_tests::{Decoder, Step, context};

/// Counts the allocations of threads that ask for it.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count() {
    // A thread that is ending counts nothing.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

// SAFETY: everything is passed on to `System`; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; `pointer` is from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above; `pointer` is from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations that this thread makes in `work`.
fn allocations<T>(work: impl FnOnce() -> T) -> (usize, T) {
    COUNT.set(Some(0));
    let result = work();
    (COUNT.replace(None).unwrap_or(0), result)
}

#[test]
fn allocations_are_counted() {
    let (count, text) = allocations(|| String::from("some text on the heap"));
    assert_eq!((count, text.len()), (1, 21));
}

#[test]
fn a_decode_step_allocates_nothing() -> anyhow::Result<()> {
    let names = ["models/gemma4_tiny_4w_fp16", "models/llama_tiny_4w_fp16", "fork/gemma4_fork_tiny_4w_fp16"];
    for name in names {
        let mut decoder = Decoder::load(context()?, name)?;
        decoder.execute(&Step::new(0, 5))?;
        decoder.execute(&Step::new(5, 1))?;
        let mut logits = vec![0; decoder.logits_bytes()?];
        decoder.read(&mut logits)?;
        for position in 6..9 {
            let step = Step::new(position, 1);
            let (count, result) = allocations(|| {
                decoder.execute(&step)?;
                decoder.read(&mut logits)
            });
            result?;
            assert_eq!(count, 0, "{name} at position {position}");
        }
    }
    Ok(())
}
