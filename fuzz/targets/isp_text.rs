#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| portolan_config::tables::fuzz_isp_text(data));
