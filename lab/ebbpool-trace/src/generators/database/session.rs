//! Sessions: transactions of several clients, interleaved by statements.

use super::super::References;
use super::super::random::Random;
use super::PageAllocator;
use super::options::BenchmarkOptions;
use crate::reference::Batch;

/// A benchmark's database and its mix of transactions.
pub(in super::super) trait Benchmark: Send {
    /// The freshly loaded database; the unit of its size depends on the benchmark.
    fn loaded(size: u64, options: &BenchmarkOptions) -> Self;

    /// The pages of the database's relations, including their future growth.
    fn allocator(&self) -> &PageAllocator;

    /// Runs one transaction, which passes all its page requests to `transaction`.
    fn run(&mut self, transaction: &mut Transaction);
}

/// A transaction while it is being run.
pub(in super::super) struct Transaction<'a> {
    pub(in super::super) random: &'a mut Random,
    record: &'a mut TransactionRecord,
    /// Number of the client.
    session: usize,
    /// Transactions count from 1.
    number: u32,
    /// The transactions that each session runs now, this one included.
    running: &'a [u32],
    oldest: u32,
    hint_bits: bool,
}

impl Transaction<'_> {
    pub(super) fn session(&self) -> usize {
        self.session
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The oldest transaction that may still need old versions.
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    pub(super) fn is_running(&self, number: u32) -> bool {
        self.running.contains(&number)
    }

    pub(in super::super) fn read(&mut self, page: u64) {
        self.record.references.push(page << 1);
    }

    pub(in super::super) fn write(&mut self, page: u64) {
        self.record.references.push(page << 1 | 1);
    }

    /// A read that makes the page dirty if `marks`; it counts as a write if hint bits count.
    pub(super) fn read_and_mark(&mut self, page: u64, marks: bool) {
        let write = marks && self.hint_bits;
        self.record.references.push(page << 1 | u64::from(write));
    }

    /// Ends a statement: no reference of another session comes between its references.
    pub(in super::super) fn end_statement(&mut self) {
        let end = self.record.references.len();
        if self.record.ends.last() != Some(&end) && end > 0 {
            self.record.ends.push(end);
        }
    }
}

/// The references of one transaction, as page and write in one number.
#[derive(Debug, Default)]
struct TransactionRecord {
    references: Vec<u64>,
    /// Where statements end in `references`.
    ends: Vec<usize>,
    /// References returned so far.
    done: usize,
    /// Statements begun so far.
    statements: usize,
}

impl TransactionRecord {
    fn clear(&mut self) {
        self.references.clear();
        self.ends.clear();
        self.done = 0;
        self.statements = 0;
    }
}

/// The stream of references of a benchmark's sessions.
pub(in super::super) struct Sessions<B> {
    benchmark: B,
    random: Random,
    records: Vec<TransactionRecord>,
    running: Vec<u32>,
    number: u32,
    hint_bits: bool,
    warmup: u64,
    /// The session whose statement is running.
    current: usize,
    /// Where its references end.
    until: usize,
}

impl<B: Benchmark> Sessions<B> {
    pub(in super::super) fn new(benchmark: B, options: &BenchmarkOptions) -> Sessions<B> {
        Sessions {
            benchmark,
            random: Random::new(options.seed),
            records: (0..options.clients).map(|_| TransactionRecord::default()).collect(),
            running: vec![0; options.clients],
            number: 0,
            hint_bits: options.hint_bits,
            warmup: options.warmup,
            current: 0,
            until: 0,
        }
    }

    fn run(&mut self, session: usize) {
        self.number = self.number.wrapping_add(1).max(1);
        self.running[session] = self.number;
        let record = &mut self.records[session];
        record.clear();
        let oldest = self.running.iter().copied().min().unwrap_or(0);
        let mut transaction = Transaction {
            random: &mut self.random,
            record,
            session,
            number: self.number,
            running: &self.running,
            oldest,
            hint_bits: self.hint_bits,
        };
        self.benchmark.run(&mut transaction);
        transaction.end_statement();
    }

    fn warm_up(&mut self) {
        let sessions = self.records.len();
        for transaction in 0..std::mem::take(&mut self.warmup) {
            self.run((transaction % sessions as u64) as usize);
        }
        for record in &mut self.records {
            record.clear();
        }
    }

    /// Continues with the next statement of a random session.
    fn next_statement(&mut self) {
        self.current = self.random.below(self.records.len() as u64) as usize;
        while self.records[self.current].statements == self.records[self.current].ends.len() {
            self.run(self.current);
        }
        let record = &mut self.records[self.current];
        self.until = record.ends[record.statements];
        record.statements += 1;
    }
}

impl<B: Benchmark> References for Sessions<B> {
    fn fill(&mut self, batch: &mut Batch, count: usize) {
        if self.warmup > 0 {
            self.warm_up();
        }
        let mut left = count;
        while left > 0 {
            if self.records[self.current].done == self.until {
                self.next_statement();
            }
            let record = &mut self.records[self.current];
            let end = self.until.min(record.done + left);
            for &reference in &record.references[record.done..end] {
                batch.push(reference >> 1, reference & 1 == 1);
            }
            left -= end - record.done;
            record.done = end;
        }
    }
}

/// Runs transactions one after the other, for tests.
#[cfg(test)]
pub(in super::super) mod recording {
    use super::*;

    pub(in super::super::super) struct SessionTape {
        random: Random,
        running: Vec<u32>,
        number: u32,
    }

    impl SessionTape {
        pub(in super::super::super) fn new(sessions: usize) -> SessionTape {
            SessionTape { random: Random::new(1), running: vec![0; sessions], number: 0 }
        }

        /// The references of a transaction of `session`; it counts as running until the
        /// session's next one.
        pub(in super::super::super) fn record(
            &mut self,
            session: usize,
            work: impl FnOnce(&mut Transaction),
        ) -> Vec<(u64, bool)> {
            self.number += 1;
            self.running[session] = self.number;
            let mut record = TransactionRecord::default();
            work(&mut Transaction {
                random: &mut self.random,
                record: &mut record,
                session,
                number: self.number,
                running: &self.running,
                oldest: self.running.iter().copied().min().unwrap_or(0),
                hint_bits: true,
            });
            let references = record.references.iter();
            references.map(|&one| (one >> 1, one & 1 == 1)).collect()
        }
    }
}
