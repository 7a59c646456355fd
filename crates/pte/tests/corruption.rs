//! Damaged files: whatever is done to a fixture, reading it ends in an error or in values that can all be visited.
#![expect(clippy::cast_possible_truncation, reason = "small numbers")]
mod common;

use std::time::{Duration, Instant};

/// A small generator, so that a seed means the same damage everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// What a reader owes for a damaged file.
#[derive(PartialEq)]
enum Duty {
    Reject,
    RejectOrRead,
}

fn put(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

/// Calls `check` with every damage to `file`.
fn damage(file: &[u8], random: &mut Random, mut check: impl FnMut(&str, &[u8], Duty)) {
    let n = file.len();
    for cut in [0, 1, 3, 4, 7, 8, 11, 12, 15, 16, 31, 32, 40, 63, n / 4, n / 2, n - 64, n - 1] {
        let duty = if cut >= n - 64 { Duty::RejectOrRead } else { Duty::Reject };
        check(&format!("cut to {cut}"), &file[..cut], duty);
    }
    check("zeros", &vec![0; n], Duty::Reject);
    check("random", &random.bytes(n), Duty::Reject);
    check("junk appended", &[file, &random.bytes(37)].concat(), Duty::RejectOrRead);
    check("identifier", &put(file, 4, b"XX00"), Duty::Reject);
    let size = n as u32;
    for root in [0, 3, size - 1, size, size + 4, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        check(&format!("root {root}"), &put(file, 0, &root.to_le_bytes()), Duty::Reject);
    }
    let size = n as u64;
    for at in (8..48).step_by(4) {
        check(&format!("magic at {at}"), &put(file, at, b"zz00"), Duty::RejectOrRead);
        for value in [0, 1, 8, 23, size, size * 2, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 15, u64::MAX] {
            check(&format!("{value} at {at}"), &put(file, at, &value.to_le_bytes()), Duty::RejectOrRead);
            let word = (value as u32).to_le_bytes();
            check(&format!("word {value} at {at}"), &put(file, at, &word), Duty::RejectOrRead);
        }
    }
    // Most of a file is constants: damage in the FlatBuffer, at its start, is what matters.
    let start = n.min(4096);
    for round in 0..400 {
        let reach = if round % 8 == 0 { n } else { start };
        let at = random.below(reach);
        let flipped = file[at] ^ (1 << random.below(8));
        check(&format!("flip at {at}"), &put(file, at, &[flipped]), Duty::RejectOrRead);
        let at = random.below(reach / 4) * 4;
        let any = random.next() as u32;
        let word = [0, 1, 4, u32::MAX, 0x7fff_ffff, 0x8000_0000, any][random.below(7)];
        check(&format!("word {word} at {at}"), &put(file, at, &word.to_le_bytes()), Duty::RejectOrRead);
    }
    for _ in 0..100 {
        let mut many = file.to_vec();
        for _ in 0..random.below(12) + 2 {
            let at = random.below(start);
            many[at] = random.next() as u8;
        }
        check("many bytes", &many, Duty::RejectOrRead);
    }
}

#[test]
fn damaged_files_are_refused_or_read() {
    let mut files = common::files(&["pte", "ptd", "bpte"]);
    // Larger ones have the same structures and cost time.
    files.retain(|path| path.metadata().unwrap().len() < 16 << 10);
    let (mut refused, mut read) = (0, 0);
    for (seed, path) in files.iter().enumerate() {
        let file = std::fs::read(path).unwrap();
        damage(&file, &mut Random(seed as u64), |what, damaged, duty| {
            let begin = Instant::now();
            let result = common::walk::walk(damaged);
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(begin.elapsed() < Duration::from_secs(2), "{name}, {what}: took {:?}", begin.elapsed());
            match result {
                Ok(_) if duty == Duty::Reject => panic!("{name}, {what}: was read"),
                Ok(_) => read += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        });
    }
    // Both outcomes must be common, or the damage is of no use.
    assert!(refused > 1000 && read > 1000, "{refused} refused, {read} read");
}
