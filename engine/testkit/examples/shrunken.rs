//! A test by random histories, and what `shrink` makes of one that fails: a queue with a fault in
//! it is held against `VecDeque`, and the history that shows the fault is made as short as it gets.
//!
//! ```text
//! cargo run -p firn-testkit --example shrunken
//! ```

use std::collections::VecDeque;

use firn_testkit::rng::Rng;
use firn_testkit::shrink::shrink;

#[derive(Clone, Debug)]
enum Call {
    Push(u64),
    Pop,
}

/// A queue of two stacks. Its fault: where the stack that is read from is empty it takes over the
/// other one as it is, without turning it round.
#[derive(Default)]
struct Queue {
    pushed: Vec<u64>,
    popped: Vec<u64>,
}

impl Queue {
    fn push(&mut self, value: u64) {
        self.pushed.push(value);
    }

    fn pop(&mut self) -> Option<u64> {
        if self.popped.is_empty() {
            std::mem::swap(&mut self.pushed, &mut self.popped);
        }
        self.popped.pop()
    }
}

/// Whether the queue answers otherwise than the model.
fn fails(history: &[Call]) -> bool {
    let (mut queue, mut model) = (Queue::default(), VecDeque::new());
    history.iter().any(|call| match call {
        Call::Push(value) => {
            queue.push(*value);
            model.push_back(*value);
            false
        }
        Call::Pop => queue.pop() != model.pop_front(),
    })
}

fn main() {
    let mut rng = Rng::new(1);
    let history: Vec<Call> = (0..200)
        .map(|_| if rng.one_in(3) { Call::Pop } else { Call::Push(rng.below(100)) })
        .collect();
    assert!(fails(&history), "the fault shows");
    let shortest = shrink(history.clone(), 10_000, fails);
    println!("{} calls fail, and so do these {}: {shortest:?}", history.len(), shortest.len());
    assert_eq!(shortest.len(), 3, "two pushes and a pop are the least that shows it");
}
