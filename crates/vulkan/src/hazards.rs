//! Where a barrier is needed: a pure model of what commands touch.
//!
//! A barrier here is global: it orders everything before it against everything after it, for the stages it names. So
//! it empties the history, and the history is all that has to be looked at.

use std::collections::{BTreeMap, HashMap};
use std::ops::{BitOr, Range};

/// A set of pipeline stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stages(u8);

impl Stages {
    /// Kernels.
    pub(crate) const COMPUTE: Self = Self(1);
    /// Copies and fills.
    pub(crate) const TRANSFER: Self = Self(2);
    /// The reading of dispatch sizes.
    pub(crate) const INDIRECT: Self = Self(4);
    /// All of them.
    pub(crate) const ALL: Self = Self(7);

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Stages {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One range of bytes that a command touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Identity of the buffer.
    pub(crate) buffer: u64,
    /// The bytes.
    pub(crate) range: Range<u64>,
    /// Whether it (also) writes them; else it only reads.
    pub(crate) writes: bool,
    /// One stage.
    pub(crate) stage: Stages,
}

/// A barrier: everything before it in `before` ends, and its writes are visible, before `after` begins behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub(crate) before: Stages,
    pub(crate) after: Stages,
}

/// What was touched since the last barrier.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    history: HashMap<u64, History>,
    /// Stages of all commands so far.
    used: Stages,
    /// Stages that the last barrier covers; `None` before the first one.
    covered: Option<Stages>,
}

#[derive(Debug, Default)]
struct History {
    reads: Spans,
    writes: Spans,
}

impl Tracker {
    /// Notes a command. Gives the barrier that has to come before it: when it reads what was written, or writes what
    /// was read or written, since the last barrier. The first command of a stage that the last barrier left out gets
    /// one too, since it is not ordered against anything in front of that barrier.
    pub(crate) fn command(&mut self, touches: &[Touch]) -> Option<Barrier> {
        let stages = touches.iter().fold(Stages::default(), |all, touch| all | touch.stage);
        let left_out = self.covered.is_some_and(|covered| !covered.contains(stages));
        let barrier = (left_out || touches.iter().any(|touch| self.conflicts(touch)))
            .then_some(Barrier { before: self.used, after: self.used | stages });
        if let Some(barrier) = barrier {
            self.history.clear();
            self.covered = Some(barrier.after);
        }
        self.used = self.used | stages;
        for touch in touches {
            let history = self.history.entry(touch.buffer).or_default();
            let spans = if touch.writes { &mut history.writes } else { &mut history.reads };
            spans.insert(touch.range.clone());
        }
        barrier
    }

    fn conflicts(&self, touch: &Touch) -> bool {
        self.history.get(&touch.buffer).is_some_and(|history| {
            history.writes.overlaps(&touch.range) || touch.writes && history.reads.overlaps(&touch.range)
        })
    }
}

/// A set of bytes, as start and end of disjoint spans.
#[derive(Debug, Default)]
struct Spans(BTreeMap<u64, u64>);

impl Spans {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        // The spans are disjoint, so the last that starts before the range's end also ends last.
        !range.is_empty() && self.0.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Spans that touch the new one, from the last to the first, melt into it.
        while let Some((&other_start, &other_end)) = self.0.range(..=end).next_back()
            && other_end >= start
        {
            start = start.min(other_start);
            end = end.max(other_end);
            self.0.remove(&other_start);
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(buffer: u64, range: Range<u64>) -> Touch {
        Touch { buffer, range, writes: false, stage: Stages::COMPUTE }
    }

    fn write(buffer: u64, range: Range<u64>) -> Touch {
        Touch { writes: true, ..read(buffer, range) }
    }

    fn barriers(commands: &[&[Touch]]) -> Vec<bool> {
        let mut tracker = Tracker::default();
        commands.iter().map(|command| tracker.command(command).is_some()).collect()
    }

    #[test]
    fn only_conflicts_cost_a_barrier() {
        assert_eq!(barriers(&[&[read(0, 0..8)], &[read(0, 0..8)]]), [false, false], "read after read");
        assert_eq!(barriers(&[&[write(0, 0..8)], &[read(0, 7..9)]]), [false, true], "read after write");
        assert_eq!(barriers(&[&[read(0, 0..8)], &[write(0, 4..6)]]), [false, true], "write after read");
        assert_eq!(barriers(&[&[write(0, 0..8)], &[write(0, 0..1)]]), [false, true], "write after write");
        assert_eq!(barriers(&[&[write(0, 0..8)], &[write(0, 8..9)]]), [false, false], "neighbours");
        assert_eq!(barriers(&[&[write(0, 0..8)], &[write(1, 0..8)]]), [false, false], "other buffer");
    }

    #[test]
    fn a_barrier_covers_all_that_came_before() {
        let commands: [&[Touch]; 4] =
            [&[write(0, 0..8)], &[write(1, 0..8)], &[read(0, 0..8)], &[read(1, 0..8)]];
        assert_eq!(barriers(&commands), [false, false, true, false]);
    }

    #[test]
    fn a_command_does_not_wait_for_itself() {
        assert_eq!(barriers(&[&[read(0, 0..8), write(0, 0..8)]]), [false]);
    }

    #[test]
    fn stages_that_a_barrier_left_out_get_one() {
        let copy = |buffer| Touch { stage: Stages::TRANSFER, ..read(buffer, 0..8) };
        let mut tracker = Tracker::default();
        tracker.command(&[write(0, 0..8)]);
        let barrier = tracker.command(&[read(0, 0..8)]).unwrap();
        assert_eq!(barrier, Barrier { before: Stages::COMPUTE, after: Stages::COMPUTE });
        let barrier = tracker.command(&[copy(0)]).unwrap();
        assert_eq!(barrier.after, Stages::COMPUTE | Stages::TRANSFER);
        assert_eq!(tracker.command(&[copy(1)]), None);
    }

    fn touch() -> impl Strategy<Value = Touch> {
        let stage = prop::sample::select(vec![Stages::COMPUTE, Stages::TRANSFER, Stages::INDIRECT]);
        (0..3u64, 0..40u64, 0..12u64, any::<bool>(), stage).prop_map(
            |(buffer, start, length, writes, stage)| Touch {
                buffer,
                range: start..start + length,
                writes,
                stage,
            },
        )
    }

    fn clash(a: &Touch, b: &Touch) -> bool {
        let bytes = |touch: &Touch| touch.range.clone().collect::<Vec<_>>();
        let shared = bytes(a).iter().any(|byte| b.range.contains(byte));
        a.buffer == b.buffer && shared && (a.writes || b.writes)
    }

    proptest! {
        /// Against the definition: of every two commands that clash, a barrier that names both stages lies between;
        /// and no barrier lies where nothing since the one before clashes and no stage is new.
        #[test]
        fn agrees_with_the_definition(commands in prop::collection::vec(prop::collection::vec(touch(), 1..4), 1..24)) {
            let mut tracker = Tracker::default();
            let found: Vec<_> = commands.iter().map(|command| tracker.command(command)).collect();
            for (later, command) in commands.iter().enumerate() {
                for (earlier, other) in commands[..later].iter().enumerate() {
                    for (a, b) in other.iter().flat_map(|a| command.iter().map(move |b| (a, b))) {
                        let ordered = found[earlier + 1..=later].iter().flatten().any(|barrier| {
                            barrier.before.contains(a.stage) && barrier.after.contains(b.stage)
                        });
                        prop_assert!(!clash(a, b) || ordered, "{other:?} and {command:?} race");
                    }
                }
                let last = found[..later].iter().rposition(Option::is_some);
                let since = &commands[last.unwrap_or(0)..later];
                let needed = since.iter().flatten().any(|a| command.iter().any(|b| clash(a, b)));
                let covered = last.and_then(|place| found[place]).map_or(Stages::ALL, |barrier| barrier.after);
                let new_stage = command.iter().any(|touch| !covered.contains(touch.stage));
                prop_assert_eq!(found[later].is_some(), needed || new_stage);
            }
        }

        #[test]
        fn spans_are_sets_of_bytes(ranges in prop::collection::vec((0..60u64, 0..10u64), 0..20), probe in (0..60u64, 0..10u64)) {
            let mut spans = Spans::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, length) in ranges {
                spans.insert(start..start + length);
                bytes.extend(start..start + length);
            }
            let probe = probe.0..probe.0 + probe.1;
            prop_assert_eq!(spans.overlaps(&probe), probe.clone().any(|byte| bytes.contains(&byte)));
            let kept: Vec<_> = spans.0.iter().collect();
            prop_assert!(kept.windows(2).all(|pair| pair[0].1 < pair[1].0), "spans not melted: {:?}", kept);
        }
    }
}
