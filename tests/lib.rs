//! Cross-crate conformance and property suites; see the test targets.
