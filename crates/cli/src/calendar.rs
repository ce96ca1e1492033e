//! The date and time of day, in names of folders and in words.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
pub(crate) const DAY: u64 = 86_400;

/// Seconds since 1970; 0 by a clock before it, which is wrong anyway.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The current moment in UTC, as `2026-03-09-142501`. Names sorted as text are sorted by time.
pub(crate) fn stamp() -> String {
    stamp_of(now())
}

/// A moment in UTC for people, as `2026-03-09 14:25`.
pub(crate) fn moment(seconds: u64) -> String {
    let ((year, month, day), time) = (date(seconds / DAY), seconds % DAY);
    let (hour, minute) = (time / 3600, time / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

fn stamp_of(seconds: u64) -> String {
    let ((year, month, day), time) = (date(seconds / DAY), seconds % DAY);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}-{hour:02}{minute:02}{second:02}")
}

// Year, month and day of the Gregorian calendar, `days` days after 1 January 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= days_in_year(year) {
        days -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_in_month(year, month) {
        days -= days_in_month(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_in_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (seconds, text) in [
            (0, "1970-01-01-000000"),
            (951_782_399, "2000-02-28-235959"),
            (951_782_400, "2000-02-29-000000"),
            (1_709_251_199, "2024-02-29-235959"),
            (1_735_689_600, "2025-01-01-000000"),
            (4_107_542_400, "2100-03-01-000000"),
        ] {
            assert_eq!(stamp_of(seconds), text);
        }
        assert_eq!(moment(951_782_399), "2000-02-28 23:59");
    }
}
