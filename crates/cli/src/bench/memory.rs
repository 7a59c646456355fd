//! Memory of processes.

/// Memory of a process in bytes, where the system tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The most that was resident so far, mapped files included.
    pub(crate) peak: Option<u64>,
    /// What is resident and of no file.
    pub(crate) anonymous: Option<u64>,
}

impl Memory {
    /// Of this process.
    pub(crate) fn own() -> Self {
        Self::read("/proc/self/status")
    }

    /// Of another process.
    pub(crate) fn of(process: u32) -> Self {
        Self::read(&format!("/proc/{process}/status"))
    }

    fn read(path: &str) -> Self {
        std::fs::read_to_string(path).map(|status| Self::parse(&status)).unwrap_or_default()
    }

    fn parse(status: &str) -> Self {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Self { peak: field("VmHWM:"), anonymous: field("RssAnon:") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "Name:\tetvk\nVmPeak:\t  900 kB\nVmHWM:\t  123 kB\nRssAnon:\t      4 kB\n";
        assert_eq!(Memory::parse(text), Memory { peak: Some(123 << 10), anonymous: Some(4 << 10) });
        assert_eq!(Memory::parse("VmHWM: many"), Memory::default());
    }
}
