//! Which host a report of a failed run names.

use super::hosts::{self, Host};

/// The line of a report that says what failed: the first that names a rank, or else the program's last sentence, or the last line.
pub(crate) fn sentence(report: &[String]) -> Option<&str> {
    let failed = report
        .iter()
        .find(|line| rank_after(line, "rank ").is_some() && line.contains(" failed: "));
    let said = || {
        report
            .iter()
            .rev()
            .find(|line| line.starts_with("fascicle: "))
    };
    let has_words = |line: &&String| line.contains(char::is_alphabetic);
    let last = || report.iter().rev().find(has_words);
    failed.or_else(said).or_else(last).map(String::as_str)
}

/// The host that a report names: of the process that has died, of the rank that does not answer or for which others waited, or
/// else of the rank that failed. Ranks fill the hosts one after another.
pub(crate) fn host<'a>(report: &[String], hosts: &'a [Host]) -> Option<&'a str> {
    let text = report.join("\n");
    let died = hosts.iter().find(|host| {
        let words = format!(" on {} has died", host.name);
        text.contains(&words)
    });
    if let Some(host) = died {
        return Some(&host.name);
    }
    let rank = lost(&text).or_else(|| {
        let failed = text.lines().find(|line| line.contains(" failed: "))?;
        rank_after(failed, "rank ")
    });
    hosts::host_of(hosts, rank?)
}

// The one rank that does not answer, or for which others waited.
fn lost(text: &str) -> Option<usize> {
    let silent = text.lines().find_map(|line| {
        let before = &line[..line.find(" does not answer")?];
        rank_after(&before[before.rfind("rank ")?..], "rank ")
    });
    let awaited = || {
        text.lines()
            .find(|line| line.contains(" waited "))
            .and_then(|line| rank_after(line, "for rank "))
    };
    silent.or_else(awaited)
}

// The number that follows `before`.
fn rank_after(line: &str, before: &str) -> Option<usize> {
    let after = &line[line.find(before)? + before.len()..];
    let end = after.find(|letter: char| !letter.is_ascii_digit());
    after[..end.unwrap_or(after.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(report: &[&str]) -> Option<String> {
        let hosts = hosts::parse("", "a:2,b:2,c:2", None).unwrap();
        let report: Vec<_> = report.iter().map(|line| line.to_string()).collect();
        host(&report, &hosts).map(str::to_owned)
    }

    #[test]
    fn the_lost_rank_is_blamed_before_the_one_that_noticed() {
        let died = "fascicle: rank 0 failed: its process 77 on b has died";
        assert_eq!(blamed(&["step 3", died]).as_deref(), Some("b"));
        let waited =
            "fascicle: rank 0 failed: all_reduce of x: waited 3.0 s for rank 5; rank 1 is stuck";
        assert_eq!(blamed(&[waited]).as_deref(), Some("c"));
        assert_eq!(
            blamed(&[waited, "rank 3 does not answer"]).as_deref(),
            Some("b")
        );
        let alone = "fascicle: rank 4 failed: device cuda 0: an illegal address";
        assert_eq!(blamed(&[alone]).as_deref(), Some("c"));
        assert_eq!(blamed(&["fascicle: rank 40 failed: lost"]), None);
        assert_eq!(blamed(&["mpirun lost a daemon"]), None);
    }

    #[test]
    fn the_sentence_is_the_one_with_the_rank() {
        let report = [
            "fascicle: rank 1 failed: full",
            "then rank 2 failed: full",
            "mpirun noticed",
            "------",
            "",
        ];
        let report = report.map(str::to_owned);
        assert_eq!(sentence(&report), Some("fascicle: rank 1 failed: full"));
        assert_eq!(sentence(&report[2..]), Some("mpirun noticed"));
        assert_eq!(sentence(&[]), None);
    }
}
