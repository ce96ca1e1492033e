//! The contract suite on every vendor in this build.

mod cpu_vendor {
    fn open(ordinal: usize) -> hal::Result<std::sync::Arc<dyn hal::Device>> {
        cpu::open(cpu::Options {
            ordinal,
            ..cpu::Options::default()
        })
    }

    testkit::contract_tests!(open);
}

mod cpu_vendor_with_a_limit {
    const LIMIT: usize = 1 << 20;

    fn open(ordinal: usize) -> hal::Result<std::sync::Arc<dyn hal::Device>> {
        (cpu::driver().open)(hal::OpenOptions {
            ordinal,
            settings: hal::DeviceSettings {
                memory_limit: Some(LIMIT),
                ..Default::default()
            },
            ..Default::default()
        })
    }

    #[test]
    fn memory_up_to_a_limit() {
        testkit::contract::memory::check_limit(open, LIMIT);
    }
}

mod cpu_vendor_with_two_threads {
    fn open(ordinal: usize) -> hal::Result<std::sync::Arc<dyn hal::Device>> {
        cpu::open(cpu::Options {
            ordinal,
            threads: 2,
            ..cpu::Options::default()
        })
    }

    testkit::contract_tests!(open);
}
