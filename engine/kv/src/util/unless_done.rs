//! Runs a cleanup on early return or panic.

/// Guard that runs a cleanup when dropped, unless [`done`](UnlessDone::done) was called.
pub(crate) struct UnlessDone<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> UnlessDone<F> {
    /// Creates a guard that runs `does` when dropped.
    pub(crate) fn new(does: F) -> UnlessDone<F> {
        UnlessDone(Some(does))
    }

    /// Disarms the guard after success.
    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for UnlessDone<F> {
    fn drop(&mut self) {
        if let Some(does) = self.0.take() {
            does();
        }
    }
}
