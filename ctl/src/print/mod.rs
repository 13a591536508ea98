//! What commands show to people.

mod explain;
mod peers;
mod proximity;
mod state;

pub use explain::{explained, lookup};
pub use peers::peers;
pub use proximity::{exported, proximity, written};
pub use state::{checks, forced, reloaded, services, status, touched};

/// Lines of columns, each as wide as its widest cell. Cells must be free of colour codes; `paint` colours a cell by
/// its column once the widths are known.
fn columns<const N: usize>(rows: &[[String; N]], paint: impl Fn(usize, &str, &str) -> String) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let gap = if column + 1 < N { "  " } else { "" };
            line += &format!("{}{padding}{gap}", paint(column, cell, &row[0]));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
