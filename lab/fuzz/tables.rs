//! Arrow tables that another program has made: any content is read or is refused with an error, whatever the batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema};
use ebbpool_arrow::{ArrowRows, TraceColumns};
use ebbpool_trace::{Batch, ByteRecord, ClassNumbers, PlainColumns, TableRows, TraceError};

/// Texts of a column have at most as many bytes.
const MOST_BYTES: usize = 1 << 16;

/// Texts of a dictionary, and bytes beside views.
const DICTIONARY: usize = 4;
const BESIDE_VIEWS: usize = 64;

/// A table as it comes through Arrow's interface in C, which states the rows, the types and where the memory is: all that
/// the memory contains may be wrong, its length may not. Three bytes of the input choose the types of page, write and class,
/// of which the highest bits say that there are nulls, the fourth is the number of rows, and the rest is memory.
pub(crate) fn arrow(input: &[u8]) {
    let [page, write, class, rows, rest @ ..] = input else {
        return;
    };
    let mut memory = Memory(rest);
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (name, kind) in [("page", page), ("write", write), ("class", class)] {
        let found = type_of(*kind);
        let Some(data) = memory.column(&found, usize::from(*rows), kind & 0x80 != 0) else {
            return;
        };
        fields.push(Field::new(name, found, true));
        columns.push(make_array(data));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    check(&batch.expect("columns of one length with their own types"));
}

/// A batch that is valid has the same references as its parts, and the same rows.
fn check(batch: &RecordBatch) {
    let rows = |batches: Vec<RecordBatch>| {
        let mut rows = ArrowRows::new("t", batch.schema(), Box::new(batches.into_iter().map(Ok)), None);
        rows.choose(&[0, 1, 2])?;
        let (mut all, mut row) = (Vec::new(), ByteRecord::new());
        while rows.next(&mut row)? {
            all.push(std::mem::take(&mut row));
        }
        Ok::<_, TraceError>(all)
    };
    let parts = (0..batch.num_rows()).step_by(7).map(|row| batch.slice(row, 7.min(batch.num_rows() - row)));
    if let Ok(whole) = rows(vec![batch.clone()]) {
        assert_eq!(whole.len(), batch.num_rows());
        assert_eq!(rows(parts.collect()).expect("parts of what is valid"), whole);
    }
    let columns = PlainColumns { page: 0, write: Some(1), class: Some(2) };
    let Some(columns) = TraceColumns::from_schema(&batch.schema(), columns) else {
        return;
    };
    if let Err(problem) = columns.validate(batch) {
        return assert!(!problem.contains('\n'), "{problem}");
    }
    let (mut whole, mut of_whole) = (Batch::new(), ClassNumbers::default());
    let read = columns.read(batch, Some(&mut of_whole), &mut whole);
    let (mut parts, mut of_parts) = (Batch::new(), ClassNumbers::default());
    for row in (0..batch.num_rows()).step_by(7) {
        let part = batch.slice(row, 7.min(batch.num_rows() - row));
        if let Err(wrong) = columns.read(&part, Some(&mut of_parts), &mut parts) {
            // Another column may have a wrong value in an earlier part, which the whole does not show first.
            return assert!(read.is_err(), "{wrong:?} in the part from row {row}");
        }
    }
    // Without rows there is no part whose type could be wrong.
    if batch.num_rows() > 0 {
        assert_eq!(read, Ok(()));
    }
    assert_eq!(whole.pages, parts.pages);
    assert_eq!(whole.writes, parts.writes);
    assert_eq!(whole.classes, parts.classes);
    assert_eq!(of_whole.classes(), of_parts.classes());
}

fn type_of(kind: u8) -> DataType {
    let dictionary = |keys, texts| DataType::Dictionary(Box::new(keys), Box::new(texts));
    match kind & 0x0f {
        0 => DataType::UInt64,
        1 => DataType::Int64,
        2 => DataType::UInt32,
        3 => DataType::Int32,
        4 => DataType::UInt16,
        5 => DataType::Int16,
        6 => DataType::UInt8,
        7 => DataType::Int8,
        8 => DataType::Boolean,
        9 => DataType::Utf8,
        10 => DataType::LargeUtf8,
        11 => DataType::Utf8View,
        12 => dictionary(DataType::Int8, DataType::Utf8),
        13 => dictionary(DataType::UInt32, DataType::LargeUtf8),
        14 => dictionary(DataType::Int64, DataType::Utf8View),
        _ => DataType::Float64,
    }
}

/// What is left of the memory; after its end there are zeros.
struct Memory<'a>(&'a [u8]);

impl Memory<'_> {
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (head, tail) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = tail;
        let mut taken = head.to_vec();
        taken.resize(bytes, 0);
        taken
    }

    /// The texts after offsets of `width` bytes, as many as the last offset says; `None` if these are too many.
    fn texts(&mut self, rows: usize, width: usize) -> Option<Vec<Buffer>> {
        let offsets = self.take((rows + 1) * width);
        let mut last = [0; 8];
        last[..width].copy_from_slice(&offsets[rows * width..]);
        let bytes = usize::try_from(u64::from_le_bytes(last)).ok()?;
        let texts = (bytes <= MOST_BYTES).then(|| self.take(bytes))?;
        Some(vec![offsets.into(), texts.into()])
    }

    #[expect(unsafe_code, reason = "an array comes through the interface in C without a check of its content")]
    fn column(&mut self, found: &DataType, rows: usize, has_nulls: bool) -> Option<ArrayData> {
        let nulls = has_nulls.then(|| self.take(rows.div_ceil(8)).into());
        let mut texts = Vec::new();
        let buffers = match found {
            DataType::Boolean => vec![self.take(rows.div_ceil(8)).into()],
            DataType::Utf8 => self.texts(rows, 4)?,
            DataType::LargeUtf8 => self.texts(rows, 8)?,
            DataType::Utf8View => {
                vec![self.take(16 * rows).into(), self.take(BESIDE_VIEWS).into()]
            }
            DataType::Dictionary(keys, values) => {
                texts.push(self.column(values, DICTIONARY, false)?);
                vec![self.take(rows * keys.primitive_width()?).into()]
            }
            number => vec![self.take(rows * number.primitive_width()?).into()],
        };
        let builder = ArrayData::builder(found.clone())
            .len(rows)
            .null_bit_buffer(nulls)
            .buffers(buffers)
            .child_data(texts)
            .align_buffers(true);
        // SAFETY: the lengths of the buffers are those of the rows, and the content is validated before it is read.
        unsafe { builder.skip_validation(true) }.build().ok()
    }
}
