//! What is to happen where something does not come to its end: an error, or a panic on the way.

/// Does something when it goes, unless [`done`](UnlessDone::done) has been called.
pub(crate) struct UnlessDone<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> UnlessDone<F> {
    /// `does` is called when what is given goes.
    pub(crate) fn new(does: F) -> UnlessDone<F> {
        UnlessDone(Some(does))
    }

    /// It has come to its end: nothing is to be done.
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
