//! Rows in a database, for tests in real and in simulated files. The module that includes this file has `Book` in scope.

use redb::{ReadableTable as _, TableDefinition};

use super::Book;

const ROWS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");

/// Whether a row was committed.
pub(super) fn put(book: &mut Book, row: u64) -> bool {
    let bytes = [row as u8; 3000];
    let committed = book.commit(|transaction| {
        transaction.open_table(ROWS)?.insert(row, &bytes[..])?;
        Ok(())
    });
    committed.is_ok()
}

/// The rows, each of which is whole.
pub(super) fn rows(book: &Book) -> Vec<u64> {
    let row = |(row, bytes): (redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>)| {
        assert!(bytes.value().iter().all(|&byte| byte == row.value() as u8));
        row.value()
    };
    let read = book.read(|transaction| {
        let Ok(table) = transaction.open_table(ROWS) else { return Ok(Vec::new()) };
        Ok(table.iter()?.map(|entry| row(entry.unwrap())).collect())
    });
    read.unwrap()
}
