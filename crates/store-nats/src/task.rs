//! Tasks that end with their owner.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

/// A task that is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Owned(JoinHandle<()>);

impl Owned {
    pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Locks; nothing panics while the guarded values are half changed, so poison means nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
