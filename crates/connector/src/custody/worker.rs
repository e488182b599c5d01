//! One thread for a keyring whose calls may hang: a call that does not come back costs its caller a
//! bounded wait, and no second thread.

use super::{Fault, Keyring};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use teamlamp_clock::Clock;
use tokio::sync::oneshot;

type Call = Box<dyn FnOnce(&dyn Keyring) + Send>;

/// Calls that may wait for their turn behind one that hangs.
const WAITING: usize = 16;

/// A keyring and, where its calls may hang, the thread that makes them.
#[derive(Debug)]
pub(super) struct Worker {
    keyring: Arc<dyn Keyring>,
    calls: Mutex<Option<SyncSender<Call>>>,
}

impl Worker {
    pub(super) fn new(keyring: Arc<dyn Keyring>) -> Self {
        Self { keyring, calls: Mutex::new(None) }
    }

    /// Makes a call, at most for `bound`. A late answer of one that took longer is nobody's.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        clock: &Clock,
        bound: Duration,
        call: impl FnOnce(&dyn Keyring) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        if !self.keyring.may_hang() {
            return call(self.keyring.as_ref());
        }
        let (answer, answered) = oneshot::channel();
        let call: Call = Box::new(move |keyring| {
            // Nobody waits for it any more: done late, it would be done against what came after.
            if answer.is_closed() {
                return;
            }
            // Libraries of keyrings panicked where there was no bus: that must not end the thread.
            let result = catch_unwind(AssertUnwindSafe(|| call(keyring)));
            let _ = answer.send(result.unwrap_or_else(|_| Err(Fault::Broken("its library panicked".into()))));
        });
        self.thread()?.try_send(call).map_err(|_| Fault::Hung)?;
        match clock.within(bound, answered).await {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Fault::Broken("its thread ended".into())),
            None => Err(Fault::Hung),
        }
    }

    /// The thread's queue; the thread ends when this worker does and its last call came back.
    fn thread(&self) -> Result<SyncSender<Call>, Fault> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = &*calls {
            return Ok(calls.clone());
        }
        let (sender, receiver) = sync_channel::<Call>(WAITING);
        let keyring = self.keyring.clone();
        std::thread::Builder::new()
            .name("keyring".into())
            .spawn(move || {
                for call in receiver {
                    call(keyring.as_ref());
                }
            })
            .map_err(|cause| Fault::Broken(format!("no thread for it: {cause}")))?;
        *calls = Some(sender.clone());
        Ok(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;
    use std::sync::mpsc::{Receiver, channel};

    /// A keyring that hangs until it is told to go on.
    #[derive(Debug)]
    struct Hanging(Mutex<Receiver<()>>);

    impl Keyring for Hanging {
        fn read(&self, _: &str) -> Result<Option<SecretString>, Fault> {
            let _ = self.0.lock().unwrap().recv();
            Ok(None)
        }
        fn write(&self, _: &str, _: &SecretString) -> Result<(), Fault> {
            panic!("no bus");
        }
        fn forget(&self, _: &str) -> Result<(), Fault> {
            Ok(())
        }
        fn unlock(&self) -> Result<(), Fault> {
            Ok(())
        }
        fn may_hang(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_call_that_hangs_is_told_and_the_next_works_once_it_came_back() {
        let (go_on, gate) = channel();
        let worker = Worker::new(Arc::new(Hanging(Mutex::new(gate))));
        let clock = Clock::system();
        let short = Duration::from_millis(20);
        assert_eq!(worker.call(&clock, short, |k| k.read("a").map(|_| ())).await, Err(Fault::Hung));
        assert_eq!(worker.call(&clock, short, |k| k.forget("a")).await, Err(Fault::Hung), "it still hangs");
        let late = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = late.clone();
        let said = worker.call(&clock, short, move |_| {
            told.store(true, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        });
        assert_eq!(said.await, Err(Fault::Hung));
        go_on.send(()).unwrap();
        assert_eq!(worker.call(&clock, Duration::from_secs(30), |k| k.forget("a")).await, Ok(()));
        assert!(!late.load(std::sync::atomic::Ordering::SeqCst), "given up is given up");
    }

    #[tokio::test]
    async fn a_panic_of_the_library_is_a_fault_and_not_the_end() {
        let (_keep, gate) = channel();
        let worker = Worker::new(Arc::new(Hanging(Mutex::new(gate))));
        let (clock, bound) = (Clock::system(), Duration::from_secs(30));
        let said = worker.call(&clock, bound, |k| k.write("a", &SecretString::from("x"))).await;
        assert!(matches!(said, Err(Fault::Broken(_))), "{said:?}");
        assert_eq!(worker.call(&clock, bound, |k| k.forget("a")).await, Ok(()));
    }
}
