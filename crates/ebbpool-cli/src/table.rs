//! Tables that are readable at 80 columns and in a pipe.

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

/// Joules in millijoules.
pub(crate) fn millijoules(joules: f64) -> String {
    format!("{:.4} mJ", 1e3 * joules)
}

/// A table of two columns, a name and a figure in each line.
pub(crate) struct Figures(Table);

impl Figures {
    pub(crate) fn new() -> Self {
        Figures(plain())
    }

    pub(crate) fn row(&mut self, name: &str, value: String) {
        add_row(&mut self.0, vec![name.into(), value]);
    }

    /// With figures at the right.
    pub(crate) fn at_the_right(self) -> String {
        finish(self.0)
    }

    /// With figures at the left.
    pub(crate) fn at_the_left(self) -> String {
        finish_left(self.0)
    }
}
