//! Tables that fit 80 columns and can be piped to another program.

use comfy_table::{CellAlignment, Table, presets};

pub(crate) fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

pub(crate) fn add_row(table: &mut Table, cells: Vec<String>) {
    table.add_row(cells);
}

pub(crate) fn finish(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    finish_left(table)
}

pub(crate) fn finish_left(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats joules as millijoules.
pub(crate) fn millijoules(joules: f64) -> String {
    format!("{:.4} mJ", 1e3 * joules)
}

/// A table of two columns: each line has a name and a figure.
pub(crate) struct FigureTable(Table);

impl FigureTable {
    pub(crate) fn new() -> Self {
        FigureTable(plain())
    }

    pub(crate) fn row(&mut self, name: &str, value: String) {
        add_row(&mut self.0, vec![name.into(), value]);
    }

    /// The table with right-aligned figures.
    pub(crate) fn right_aligned(self) -> String {
        finish(self.0)
    }

    /// The table with left-aligned figures.
    #[cfg(any(feature = "device", feature = "sqlite"))]
    pub(crate) fn left_aligned(self) -> String {
        finish_left(self.0)
    }
}
