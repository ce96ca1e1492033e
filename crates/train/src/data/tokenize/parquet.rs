//! Documents in a column of a table.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use hal::files;

use super::documents::{MOST_DOCUMENT_BYTES, Part, Sink, Skipped};
use super::inputs::TokenizeInput;
use crate::data::{Error, Result};

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call of the library for tables, whose panics become errors: it has them for damaged tables.
pub(in crate::data) fn is_guarded() -> bool {
    IS_GUARDED.get()
}

fn guarded<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let before = IS_GUARDED.replace(true);
    // After a panic the table is dropped unread.
    let called = panic::catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(before);
    called.unwrap_or_else(|_| Err(ParquetError::General("its pages are damaged".into())))
}

/// Rows that are taken from the column at a time.
const ROWS_AT_ONCE: usize = 256;

/// Hands the cells of the column `field` to `sink`; those without a value count as empty.
pub(super) fn read(
    input: &TokenizeInput,
    field: &str,
    skipped: &mut Skipped,
    progress: &dyn Fn(u64),
    sink: Sink<'_>,
) -> Result<()> {
    let refuse = |reason: String| Error::input(&input.path, reason);
    let wrap = |error: ParquetError| refuse(format!("no table that can be read: {error}"));
    let file =
        files::open(&input.path).map_err(|error| Error::io("opening", &input.path, error))?;
    let table = guarded(|| SerializedFileReader::new(file)).map_err(wrap)?;
    let column = column(&table, field).map_err(refuse)?;
    let (num_groups, mut row) = (table.num_row_groups(), 0);
    for index in 0..num_groups {
        let group = guarded(|| table.get_row_group(index)).map_err(wrap)?;
        let more = read_group(&*group, column, &mut row, skipped, sink);
        match more {
            Err(Fault::Table(error)) => return Err(wrap(error)),
            Err(Fault::Ours(error)) => return Err(error),
            Err(Fault::Cell(reason)) => return Err(refuse(format!("row {row}: {reason}"))),
            Ok(false) => break,
            Ok(true) => {}
        }
        let done = |groups: usize| input.bytes * groups as u64 / num_groups as u64;
        progress(done(index + 1) - done(index));
    }
    Ok(())
}

/// What may go wrong in a group of rows.
enum Fault {
    Table(ParquetError),
    Cell(String),
    Ours(Error),
}

// Returns whether `sink` wants more.
fn read_group(
    group: &dyn RowGroupReader,
    column: usize,
    row: &mut u64,
    skipped: &mut Skipped,
    sink: Sink<'_>,
) -> Result<bool, Fault> {
    let reader = guarded(|| group.get_column_reader(column)).map_err(Fault::Table)?;
    let ColumnReader::ByteArrayColumnReader(mut reader) = reader else {
        return Ok(false);
    };
    let (mut cells, mut levels) = (Vec::<ByteArray>::new(), Vec::<i16>::new());
    loop {
        cells.clear();
        levels.clear();
        let read =
            guarded(|| reader.read_records(ROWS_AT_ONCE, Some(&mut levels), None, &mut cells));
        let (rows, ..) = read.map_err(Fault::Table)?;
        if rows == 0 {
            return Ok(true);
        }
        skipped.empty += (rows - cells.len().min(rows)) as u64;
        for cell in &cells {
            *row += 1;
            let bytes = cell.data();
            if bytes.len() > MOST_DOCUMENT_BYTES {
                let found = bytes.len();
                return Err(Fault::Cell(format!(
                    "found {found} bytes, needs at most {MOST_DOCUMENT_BYTES}"
                )));
            }
            let text = str::from_utf8(bytes).map_err(|error| {
                Fault::Cell(format!("not UTF-8 at byte {}", error.valid_up_to()))
            })?;
            if !sink(Part::whole(text)).map_err(Fault::Ours)? {
                return Ok(false);
            }
        }
    }
}

// The number of the column: a text, one for each row.
fn column(table: &impl FileReader, field: &str) -> Result<usize, String> {
    let schema = table.metadata().file_metadata().schema_descr();
    let is_named = |index: &usize| schema.column(*index).path().parts() == [field];
    let Some(index) = (0..schema.num_columns()).find(is_named) else {
        let names = schema.columns().iter().take(20);
        let names: Vec<String> = names.map(|column| column.path().string()).collect();
        return Err(format!(
            "found the columns {}, needs `{field}`; --field names another",
            names.join(", ")
        ));
    };
    let column = schema.column(index);
    match (column.physical_type(), column.max_rep_level()) {
        (Type::BYTE_ARRAY, 0) => Ok(index),
        (found, 0) => Err(format!("column `{field}` is of {found}, needs texts")),
        _ => Err(format!(
            "column `{field}` holds lists, needs a text per row"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;
    use std::{fs, panic};

    /// A table in two groups of rows, with cells that have no value.
    fn table() -> Vec<u8> {
        let schema = "message table { required int64 id; optional binary text (UTF8); repeated binary tags (UTF8); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties =
            WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY);
        let mut bytes = Vec::new();
        let properties = Arc::new(properties.build());
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
        for texts in [
            vec![Some("first"), None],
            vec![Some("second\n"), Some("third")],
        ] {
            let mut group = writer.next_row_group().unwrap();
            let mut ids = group.next_column().unwrap().unwrap();
            ids.typed::<Int64Type>()
                .write_batch(&[1, 2], None, None)
                .unwrap();
            ids.close().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let levels: Vec<i16> = texts.iter().map(|text| i16::from(text.is_some())).collect();
            let values: Vec<ByteArray> =
                texts.iter().flatten().map(|text| (*text).into()).collect();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, Some(&levels), None)
                .unwrap();
            column.close().unwrap();
            let mut tags = group.next_column().unwrap().unwrap();
            tags.typed::<ByteArrayType>()
                .write_batch(&[], Some(&[0, 0]), Some(&[0, 0]))
                .unwrap();
            tags.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        bytes
    }

    fn texts(bytes: &[u8], field: &str) -> Result<(Vec<String>, u64)> {
        let file = tempfile::NamedTempFile::with_suffix(".parquet").unwrap();
        fs::write(file.path(), bytes).unwrap();
        let input = TokenizeInput::find(&[file.path().to_owned()], &[])?.remove(0);
        let (mut texts, mut skipped) = (Vec::new(), Skipped::default());
        read(&input, field, &mut skipped, &|_| (), &mut |part| {
            texts.push(part.text.to_owned());
            Ok(true)
        })?;
        Ok((texts, skipped.empty))
    }

    #[test]
    fn cells_are_documents() {
        let (texts, empty) = texts(&table(), "text").unwrap();
        assert_eq!(
            (texts, empty),
            (
                vec!["first".to_owned(), "second\n".into(), "third".into()],
                1
            )
        );
    }

    #[test]
    fn other_columns_are_refused() {
        for (field, needed) in [
            (
                "body",
                "found the columns id, text, tags, needs `body`; --field names another",
            ),
            ("id", "column `id` is of INT64, needs texts"),
            ("tags", "column `tags` holds lists, needs a text per row"),
        ] {
            let found = texts(&table(), field).unwrap_err().to_string();
            assert!(found.ends_with(needed), "{found}");
        }
    }

    #[test]
    fn no_damage_causes_a_panic() {
        let whole = table();
        for at in 0..whole.len() {
            for bytes in [whole[..at].to_vec(), {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                bytes
            }] {
                let ended = panic::catch_unwind(|| drop(texts(&bytes, "text")));
                assert!(ended.is_ok(), "byte {at} of {}", whole.len());
            }
        }
    }
}
