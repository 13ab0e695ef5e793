//! A randomized test with `shrink`: a queue with a bug is compared with `VecDeque`, and the failing
//! history is made as short as possible.
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

/// A queue of two stacks. Its bug: if the stack for reads is empty, it takes over the other one
/// without reversing it.
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

/// Reports whether the queue differs from the model.
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
