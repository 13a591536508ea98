//! Lists the shipped ISP tables, so that the program carries them for its demo.

use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // read when it runs: a checkout that has moved does not build the script anew
    let here = std::env::var("CARGO_MANIFEST_DIR")?;
    let folder = Path::new(&here).join("../isp-tables").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut tables: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    tables.sort();
    let mut code = String::from("const TABLES: &[(&str, &[u8])] = &[\n");
    for path in &tables {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writeln!(code, "    ({name:?}, include_bytes!({:?})),", path.display().to_string())?;
    }
    code.push_str("];\n");
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("tables.rs"), code)?;
    Ok(())
}
