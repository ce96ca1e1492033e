//! The pieces of a page: tables, bars and text that holds no markup of others.

use std::fmt::Write;

/// A first cell, and the cells after it.
pub(super) type Row = (String, Vec<String>);

/// Readable for the colour-blind. Source: Okabe and Ito, "Color universal design", 2008.
const COLOURS: [&str; 6] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
];

/// Adds a table, whose first row is the head.
pub(super) fn table(page: &mut String, rows: &[Row]) {
    page.push_str("<div class=\"scroll\"><table>\n");
    for (index, (name, cells)) in rows.iter().enumerate() {
        let kind = if index == 0 { "th" } else { "td" };
        let cells = std::iter::once(name).chain(cells);
        let cells: String = cells
            .map(|cell| format!("<{kind}>{}</{kind}>", escaped(cell)))
            .collect();
        let _ = writeln!(page, "<tr>{cells}</tr>");
    }
    page.push_str("</table></div>\n");
}

/// Adds a bar of parts, each as wide as its share, and its legend.
pub(super) fn bar(page: &mut String, parts: &[(String, f64)]) {
    let total: f64 = parts.iter().map(|(_, size)| size).sum();
    let (mut bar, mut legend) = (String::new(), String::new());
    for ((name, size), colour) in parts.iter().zip(COLOURS.iter().cycle()) {
        let (name, percent) = (escaped(name), 100.0 * size / total.max(f64::MIN_POSITIVE));
        let _ = write!(
            bar,
            "<i style=\"width:{percent:.2}%;background:{colour}\"></i>"
        );
        let _ = write!(
            legend,
            "<span><i style=\"background:{colour}\"></i>{name} {percent:.0} %</span> "
        );
    }
    let _ = writeln!(
        page,
        "<div class=\"bar\">{bar}</div>\n<p class=\"legend\">{legend}</p>"
    );
}

/// The text with its markup as letters.
pub(super) fn escaped(text: &str) -> String {
    let escape = |letter| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
}
