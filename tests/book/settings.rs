//! `docs/settings.md` is generated from the structs that the parser fills.

use crate::pages::{RENEW, check_generated, read, table};
use fascicle::{
    registry,
    train::{Config, config::Key},
};

const PAGE: &str = "docs/settings.md";
const BEGIN: &str = "<!-- The tables below are made from the code";

/// The generated part of the page: everything from `BEGIN` on.
fn tables() -> String {
    let mut page = format!("{BEGIN}: {RENEW} -->\n");
    for (table, keys) in Config::keys() {
        match table {
            "" => write(&mut page, "Above all tables", &keys),
            "data" => {
                for (families, keys) in models() {
                    let title = format!("`[model]` of {}", families.join(", "));
                    write(&mut page, &title, &keys);
                }
                write(&mut page, "`[data]`", &keys);
            }
            _ => write(&mut page, &format!("`[{table}]`"), &keys),
        }
    }
    page
}

/// The tables `[model]`, each once, with the families that accept it.
fn models() -> Vec<(Vec<String>, Vec<Key>)> {
    let mut tables: Vec<(Vec<String>, Vec<Key>)> = Vec::new();
    for (family, keys) in registry::families().keys() {
        let family = format!("`{family}`");
        match tables.iter_mut().find(|(_, known)| *known == keys) {
            Some((families, _)) => families.push(family),
            None => tables.push((vec![family], keys)),
        }
    }
    tables
}

fn write(page: &mut String, title: &str, keys: &[Key]) {
    let rows = keys.iter().map(|key| {
        let default = key.default.as_ref();
        let default = default.map_or("absent".to_owned(), |value| format!("`{value}`"));
        let (values, meaning) = (key.values.to_string(), key.meaning.to_string());
        vec![format!("`{}`", key.name), values, default, meaning]
    });
    let head = ["key", "values", "default", "meaning"];
    *page += &format!(
        "
## {title}

{}",
        table(&head, rows)
    );
}

#[test]
fn the_table_of_settings_is_that_of_the_code() {
    let page = read(PAGE);
    let begin = page.find(BEGIN).expect("a line that says where it begins");
    check_generated(PAGE, &(page[..begin].to_owned() + &tables()));
}

#[test]
fn every_key_of_a_configuration_is_in_a_table_with_its_default() {
    let families = registry::families();
    let config = serde_json::to_value(Config::parse("", &families).unwrap()).unwrap();
    let (default_family, model) = families.keys().swap_remove(0);
    assert_eq!(config["model"]["family"], default_family);
    let tables = Config::keys().into_iter().chain([("model", model)]);
    let mut seen = 0;
    for (table, keys) in tables {
        let object = match table {
            "" => &config,
            _ => &config[table],
        };
        let object = object.as_object().unwrap();
        for key in &keys {
            let value = &object[key.name];
            let default = key.default.as_ref().map(|text| {
                let document: toml::Table = format!("key = {text}").parse().unwrap();
                serde_json::to_value(&document["key"]).unwrap()
            });
            assert_eq!(*value, default.unwrap_or_default(), "{table}.{}", key.name);
            assert!(!key.meaning.is_empty() && !key.values.is_empty());
        }
        let scalars = object
            .iter()
            .filter(|(_, value)| !table.is_empty() || !value.is_object());
        assert_eq!(scalars.count(), keys.len(), "keys of [{table}]");
        seen += keys.len();
    }
    assert!(seen > 50, "{seen} keys");
}
