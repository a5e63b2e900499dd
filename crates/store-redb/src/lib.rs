//! The store ports in one redb file.
