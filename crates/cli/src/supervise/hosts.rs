//! Hosts on which ranks run: lists of them as launchers and schedulers write them.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::collections::HashSet;

/// A host, and the number of ranks that it can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Host {
    /// Its name or address.
    pub(crate) name: String,
    /// Number of ranks.
    pub(crate) slots: usize,
}

/// More hosts than any machine has: what is above comes from a mistake.
const MOST_HOSTS: usize = 100_000;
/// The same for the ranks of a host.
const MOST_SLOTS: usize = 1024;

/// The hosts of a list such as `a,b:2`, `nid[001-003,007]`, or the lines `a` and `b slots=2` of a file.
///
/// `source` names the list in errors; `slots` is for hosts without a number of their own.
///
/// # Errors
/// [`Failure::Usage`] with the part that is no host, for a host that is named twice, and for one without a number of ranks.
pub(crate) fn parse(source: &str, list: &str, slots: Option<usize>) -> Outcome<Vec<Host>> {
    let refuse = |found: &str, needed: &str| {
        Err(Failure::Usage(format!(
            "{source}: found {found}, needs {needed}"
        )))
    };
    let (mut hosts, mut seen) = (Vec::new(), HashSet::new());
    for entry in entries(list) {
        let (names, own) = match entry.rsplit_once(':') {
            Some((names, number)) => (names, Some(number)),
            None => (entry.as_str(), None),
        };
        let number = match own.map(str::parse::<usize>) {
            Some(Ok(number)) => Some(number),
            Some(Err(_)) => return refuse(&format!("`{entry}`"), "HOST or HOST:RANKS"),
            None => slots,
        };
        let Some(slots) = number.filter(|number| (1..=MOST_SLOTS).contains(number)) else {
            let found = match number {
                Some(number) => format!("{number} ranks for {names}"),
                None => format!("no number of ranks for {names}"),
            };
            return refuse(
                &found,
                &format!("1 to {MOST_SLOTS}, as HOST:RANKS or by --ranks-per-host"),
            );
        };
        let Some(names) = expanded(names) else {
            return refuse(
                &format!("`{entry}`"),
                "names of letters, digits, `-`, `_` and `.`, or ranges such as nid[001-003,007]",
            );
        };
        for name in names {
            if !seen.insert(name.clone()) {
                return refuse(&format!("{name} twice"), "each host once");
            }
            hosts.push(Host { name, slots });
            if hosts.len() > MOST_HOSTS {
                return refuse("more hosts", &format!("at most {MOST_HOSTS}"));
            }
        }
    }
    match hosts.is_empty() {
        true => refuse("no host", "at least one"),
        false => Ok(hosts),
    }
}

// Entries are separated by commas outside brackets, by spaces and lines; `#` begins a comment. `slots=N` belongs to the host
// before it.
fn entries(list: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in list.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut depth = 0;
        let words = line.split(|letter: char| {
            match letter {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            letter.is_whitespace() || letter == ',' && depth <= 0
        });
        for word in words.filter(|word| !word.is_empty()) {
            match (word.strip_prefix("slots="), entries.last_mut()) {
                (Some(number), Some(host)) => *host += &format!(":{number}"),
                _ => entries.push(word.to_owned()),
            }
        }
    }
    entries
}

// The names of `a[1-3,7]b`: each number with as many digits as the first of its range has.
fn expanded(names: &str) -> Option<Vec<String>> {
    let is_name = |name: &str| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(allowed)
    };
    let Some((before, rest)) = names.split_once('[') else {
        return is_name(names).then(|| vec![names.to_owned()]);
    };
    let (ranges, after) = rest.split_once(']')?;
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |text: &str| text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let width = first.len();
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= MOST_HOSTS {
            return None;
        }
        for number in first..=last {
            // What follows may have ranges too.
            let names = expanded(&format!("{before}{number:0width$}{after}"))?;
            all.extend(names);
            if all.len() > MOST_HOSTS {
                return None;
            }
        }
    }
    Some(all)
}

/// The first hosts of a list, with as many ranks in all; the last of them may have fewer than it can run.
pub(crate) fn filled(hosts: &[Host], ranks: usize) -> Vec<Host> {
    let mut left = ranks;
    let mut filled = Vec::new();
    for host in hosts {
        let slots = host.slots.min(left);
        if slots == 0 {
            break;
        }
        left -= slots;
        filled.push(Host {
            name: host.name.clone(),
            slots,
        });
    }
    filled
}

/// The host of a rank, if ranks fill one host after another.
pub(crate) fn host_of(hosts: &[Host], rank: usize) -> Option<&str> {
    let mut first = 0;
    for host in hosts {
        if rank < first + host.slots {
            return Some(&host.name);
        }
        first += host.slots;
    }
    None
}

/// The number of ranks that hosts can run.
pub(crate) fn num_ranks(hosts: &[Host]) -> usize {
    hosts.iter().map(|host| host.slots).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(list: &str, slots: Option<usize>) -> String {
        match parse("--hosts", list, slots) {
            Ok(hosts) => {
                let hosts = hosts
                    .iter()
                    .map(|host| format!("{}:{}", host.name, host.slots));
                hosts.collect::<Vec<_>>().join(" ")
            }
            Err(failure) => failure.sentence().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn lists_of_launchers_and_schedulers_are_read() {
        assert_eq!(text("a,b:2, c", Some(4)), "a:4 b:2 c:4");
        let file = "# two nodes\nlogin-1 slots=2\n\n10.0.0.7   # the other\n";
        assert_eq!(text(file, Some(8)), "login-1:2 10.0.0.7:8");
        assert_eq!(
            text("nid[008-010,12],x", Some(1)),
            "nid008:1 nid009:1 nid010:1 nid12:1 x:1"
        );
        assert_eq!(text("r[1-2]n[1-2]:3", None), "r1n1:3 r1n2:3 r2n1:3 r2n2:3");
    }

    #[test]
    fn what_is_no_host_is_named() {
        for (list, found) in [
            ("", "found no host"),
            ("a,a", "found a twice"),
            ("a:x", "found `a:x`"),
            ("a:0", "found 0 ranks for a"),
            ("a:9999", "found 9999 ranks for a"),
            ("-n", "found `-n`"),
            ("a;b", "found `a;b`"),
            ("n[3-1]", "found `n[3-1]`"),
            ("n[1-", "found `n[1-`"),
            ("n[1-999999999]", "found `n[1-999999999]`"),
            ("n[00000-50000],m[00000-50000]", "found more hosts"),
        ] {
            let sentence = text(list, Some(1));
            assert!(
                sentence.starts_with(&format!("--hosts: {found}")),
                "{list}: {sentence}"
            );
        }
        let sentence = text("a", None);
        assert!(
            sentence.starts_with("--hosts: found no number of ranks for a"),
            "{sentence}"
        );
    }

    #[test]
    fn ranks_fill_one_host_after_another() {
        let hosts = parse("", "a:2,b:4,c:4", None).unwrap();
        assert_eq!(num_ranks(&hosts), 10);
        let six: Vec<_> = filled(&hosts, 5).iter().map(|host| host.slots).collect();
        assert_eq!(six, [2, 3]);
        let of = [0, 1, 2, 5, 6, 9, 10].map(|rank| host_of(&hosts, rank).unwrap_or("none"));
        assert_eq!(of, ["a", "a", "b", "b", "c", "c", "none"]);
    }
}
