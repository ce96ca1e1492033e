//! Configurations that differ in a few keys, and the devices that they ask for.

use tensor::Device;
use train::Config;

/// The configuration of a text with these keys, each `table.key = value`, checked.
///
/// # Panics
/// If there is no such configuration: this is for tests.
pub fn edited(text: &str, edits: &[&str]) -> Config {
    let mut config: toml::Table = text.parse().expect("a configuration");
    for edit in edits {
        let (key, value) = edit.split_once('=').expect("a key and a value");
        let (table, key) = key.trim().split_once('.').expect("a table and a key");
        let value: toml::Table = format!("value = {value}").parse().expect("a value");
        let table = config.entry(table).or_insert(toml::Table::new().into());
        let table = table.as_table_mut().expect("a table");
        table.insert(key.into(), value["value"].clone());
    }
    let config = Config::parse(&config.to_string(), &families::families());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    config.check().unwrap_or_else(|error| panic!("{error}"));
    config
}

/// A CPU device with the configuration's settings.
///
/// # Errors
/// Those of the vendor.
pub fn device(config: &Config, ordinal: usize) -> train::Result<Device> {
    let options = hal::OpenOptions {
        ordinal,
        settings: config.device_settings(),
        ..Default::default()
    };
    Ok(Device::new((cpu::driver().open)(options)?)?)
}
