//! Channels of a bounded length.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use crate::condvar::Condvar;
use crate::mutex::Mutex;
use crate::time::Instant;

struct Channel<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    drained: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    most: usize,
    senders: usize,
    has_receiver: bool,
}

/// The end of a channel that sends values, and waits while the channel is full.
pub struct SyncSender<T>(Arc<Channel<T>>);

/// The end of a channel that receives values.
pub struct Receiver<T>(Arc<Channel<T>>);

/// Makes a channel that holds `most` values at most; 0 means 1.
pub fn sync_channel<T>(most: usize) -> (SyncSender<T>, Receiver<T>) {
    let channel = Arc::new(Channel {
        state: Mutex::new(State { queue: VecDeque::new(), most: most.max(1), senders: 1, has_receiver: true }),
        filled: Condvar::new(),
        drained: Condvar::new(),
    });
    (SyncSender(Arc::clone(&channel)), Receiver(channel))
}

impl<T> SyncSender<T> {
    /// Sends, once there is room.
    ///
    /// # Errors
    ///
    /// If there is no receiver any more.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.state.lock();
        while state.has_receiver && state.queue.len() >= state.most {
            self.0.drained.wait(&mut state);
        }
        if !state.has_receiver {
            return Err(SendError(value));
        }
        state.queue.push_back(value);
        drop(state);
        self.0.filled.notify_one();
        Ok(())
    }

    /// Sends if there is room.
    ///
    /// # Errors
    ///
    /// If there is no room, or no receiver any more.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = self.0.state.lock();
        if !state.has_receiver {
            return Err(TrySendError::Disconnected(value));
        }
        if state.queue.len() >= state.most {
            return Err(TrySendError::Full(value));
        }
        state.queue.push_back(value);
        drop(state);
        self.0.filled.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Waits for the next value.
    ///
    /// # Errors
    ///
    /// If there is no sender any more.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receive(None).map_err(|_| RecvError)
    }

    /// Waits for the next value, for a time at most.
    ///
    /// # Errors
    ///
    /// If no value was sent in that time, or there is no sender any more.
    pub fn recv_timeout(&self, longest: Duration) -> Result<T, RecvTimeoutError> {
        self.receive(Instant::now().checked_add(longest))
    }

    /// The next value, if there is one.
    ///
    /// # Errors
    ///
    /// If there is no value, or no sender any more.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.state.lock();
        match state.queue.pop_front() {
            Some(value) => {
                drop(state);
                self.0.drained.notify_one();
                Ok(value)
            }
            None if state.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    fn receive(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(value) = state.queue.pop_front() {
                drop(state);
                self.0.drained.notify_one();
                return Ok(value);
            }
            if state.senders == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            match deadline {
                None => self.0.filled.wait(&mut state),
                Some(deadline) => {
                    let waited = self.0.filled.wait_until(&mut state, deadline);
                    if waited.timed_out() && state.queue.is_empty() {
                        return Err(RecvTimeoutError::Timeout);
                    }
                }
            }
        }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        SyncSender(Arc::clone(&self.0))
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        self.0.state.lock().senders -= 1;
        self.0.filled.notify_all();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.state.lock().has_receiver = false;
        self.0.drained.notify_all();
    }
}
