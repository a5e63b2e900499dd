//! How things look on a terminal. Colours vanish on pipes and with `NO_COLOR`.

use std::fmt::{self, Display};
use std::io::Write;

use anstyle::{AnsiColor, Style};

/// Names, headings, addresses.
pub(crate) const STRONG: Style = Style::new().bold();
/// What one may skip.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What wants attention.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// What went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// What can be typed, and tools.
pub(crate) const ACCENT: Style = AnsiColor::Cyan.on_default();

/// Prints a line to standard output, as `println!` does.
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::terminal::print_line(format_args!($($arg)*))
    };
}
pub(crate) use say;

/// Prints a line. Whoever closed the pipe has seen enough: that is the end, and no failure.
pub(crate) fn print_line(text: fmt::Arguments<'_>) {
    let mut out = anstream::stdout().lock();
    if writeln!(out, "{text}").is_err() {
        std::process::exit(0);
    }
}

/// A text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> impl Display {
    Painted { style, text }
}

struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{}",
            self.style.render(),
            self.text,
            self.style.render_reset()
        )
    }
}

/// A text in one line of at most so many characters. Control characters are left out: what a model
/// or a tool says must not steer the terminal.
pub(crate) fn line(text: &str, chars_max: usize) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let clean: Vec<char> = joined.chars().filter(|c| !c.is_control()).collect();
    if clean.len() <= chars_max {
        return clean.into_iter().collect();
    }
    let kept = clean.into_iter().take(chars_max.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// The same text without control characters except line breaks and tabs.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

/// Milliseconds for people.
pub(crate) fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        3_600_000..86_400_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} d", ms / 86_400_000),
    }
}

/// Columns aligned by their widest cell; the last one is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let shown = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_and_cannot_steer_the_terminal() {
        assert_eq!(line("a\n b\tc", 10), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("a\u{1b}[31mb", 10), "a[31mb");
        assert_eq!(plain("a\u{1b}[2J\nb"), "a[2J\nb");
    }

    #[test]
    fn times_are_short() {
        let shown = [5, 1_250, 90_000, 7_200_000, 200_000_000].map(took);
        assert_eq!(shown, ["5 ms", "1.2 s", "1 min", "2 h", "2 d"]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "bb"], ["ccc", "d"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), ["a    bb", "ccc  d"]);
    }
}
