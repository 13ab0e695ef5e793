//! Tests the lifetime of files in memory, and the two clocks.

use super::*;

#[test]
fn a_file_is_freed_with_its_last_name_and_handle() {
    let mem = MemEnv::plain();
    let [f, g] = ["/f", "/g"].map(Path::new);
    let file = |path| Arc::downgrade(&mem.state.lock().file("open", path).unwrap().1);
    mem.write_file(f, b"x").unwrap();
    mem.write_file(g, b"y").unwrap();
    let (old_f, old_g) = (file(f), file(g));
    let reader = mem.open_read(g, true).unwrap();
    mem.rename(f, g).unwrap();
    assert!(old_g.upgrade().is_some(), "a file with an open reader stays");
    drop(reader);
    assert!(old_g.upgrade().is_none() && old_f.upgrade().is_some());
    mem.remove(g).unwrap();
    assert!(old_f.upgrade().is_none());
}

#[test]
fn a_plain_one_has_the_clock_of_the_system() {
    let mem = MemEnv::plain();
    mem.advance(Duration::from_secs(1 << 40));
    let year = 365 * 86_400_000_000;
    assert!(mem.wall_micros() > FIRST_WALL_MICROS + year && mem.random() != mem.random());
    assert!(mem.wall_micros() < FIRST_WALL_MICROS + 1000 * year);
    let mem = MemEnv::new(7);
    mem.advance(Duration::from_secs(5));
    assert_eq!(mem.wall_micros(), FIRST_WALL_MICROS + 5_000_000);
    assert_eq!(mem.random(), MemEnv::new(7).random());
}
