//! Arrow tables that another program has made: any content is read or is refused with an error, whatever the batches.

use std::io::Cursor;

use arrow_ipc::reader::StreamReader;
use ebbpool_arrow::{ColumnNames, TraceColumns};
use ebbpool_trace::{Batch, ClassNumbers};

/// More batches than this, or rows in one, are not read.
const MOST_BATCHES: usize = 16;
const MOST_ROWS: usize = 100_000;

/// A stream in Arrow's IPC format. Its reader checks lengths and not contents, as Arrow's interface in C does, so that invalid
/// texts, offsets and indices reach the columns.
#[expect(
    unsafe_code,
    reason = "the columns are to be validated by the code under test and not by the reader"
)]
pub(crate) fn arrow(input: &[u8]) {
    let Ok(reader) = StreamReader::try_new(Cursor::new(input), None) else {
        return;
    };
    // SAFETY: each batch is validated, as far as its columns are used, before a value is read.
    let reader = unsafe { reader.with_skip_validation(true) };
    let names = ColumnNames {
        page: "page".into(),
        write: Some("write".into()),
        write_values: vec!["W".into(), "write".into()],
        class: Some(("class".into(), false)),
    };
    let Ok(columns) = TraceColumns::of(&reader.schema(), &names) else {
        return;
    };
    let mut numbers = [ClassNumbers::default(), ClassNumbers::default()];
    for batch in reader.take(MOST_BATCHES) {
        let Ok(batch) = batch else { return };
        if batch.num_rows() > MOST_ROWS || columns.validate(&batch).is_err() {
            return;
        }
        let [of_whole, of_parts] = &mut numbers;
        let mut whole = Batch::new();
        let read = columns.read(&batch, Some(of_whole), &mut whole);
        let mut parts = Batch::new();
        for row in (0..batch.num_rows()).step_by(7) {
            let part = batch.slice(row, 7.min(batch.num_rows() - row));
            let of_part = columns.read(&part, Some(&mut *of_parts), &mut parts);
            if let Err(wrong) = of_part {
                // The first wrong row may have another problem as well, which the whole shows first.
                assert!(read.is_err(), "{wrong:?} in the part from row {row}");
                return;
            }
        }
        assert_eq!(read, Ok(()));
        assert_eq!(whole.pages, parts.pages);
        assert_eq!(whole.writes, parts.writes);
        assert_eq!(whole.classes, parts.classes);
        assert_eq!(whole.pages.len(), batch.num_rows());
        let names = of_whole.classes();
        assert_eq!(names.names(), of_parts.classes().names());
    }
}
