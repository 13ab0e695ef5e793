//! Tests the protocol of slots and reference counts under loom: every interleaving of a few steps.
//! The writer is the thread that runs first by default, because loom finds the other orders from
//! loads that come after stores. [`sync`](crate::util::sync) explains how to run it.

use std::sync::Arc;

use super::*;

/// Returns a cache whose first frame, containing `7`, is block 0 of a table.
fn cached() -> (Arc<Pool>, Arc<CacheSlots>) {
    let pool = Pool::new(64 << 10);
    let slots = Arc::new(CacheSlots::new(1));
    assert!(link(&pool, &slots, 7));
    (pool, slots)
}

fn link(pool: &Arc<Pool>, slots: &CacheSlots, byte: u8) -> bool {
    let mut state = pool.lock();
    let mut frame = pool.take(&mut state, 0, 1).or_else(|| {
        state.open_chunk(0, true);
        pool.take(&mut state, 0, 1)
    });
    drop(state);
    let frame = frame.take().map(|taken| {
        let mut f = pool.frame(taken);
        f[0] = byte;
        f.freeze()
    });
    frame.is_some_and(|f| slots.link(0, &f, &epoch::pin()).is_ok())
}

fn evict(slots: &CacheSlots) {
    let mut garbage = slot::Garbage::default();
    let guard = epoch::pin();
    let place = slots.peek(0, &guard).map(CacheFrame::place);
    if let Some(place) = place {
        slots.sweep(0, place, true, &guard, &mut garbage);
    }
}

#[test]
fn a_reader_beside_eviction_and_reuse_sees_whole_frames() {
    loom::model(|| {
        let (pool, slots) = cached();
        let reader = {
            let slots = slots.clone();
            loom::thread::spawn(move || {
                let guard = epoch::pin();
                let kept = slots.get(0, &guard).map(|f| {
                    assert!(f[0] == 7 || f[0] == 8);
                    f.to_ref()
                });
                drop(guard);
                if let Some(f) = kept {
                    assert!(f[0] == 7 || f[0] == 8);
                }
            })
        };
        evict(&slots);
        link(&pool, &slots, 8);
        reader.join().unwrap();
    });
}

#[test]
fn two_linkers_agree_on_one_frame() {
    loom::model(|| {
        let pool = Pool::new(64 << 10);
        let slots = Arc::new(CacheSlots::new(1));
        let other = {
            let (pool, slots) = (pool.clone(), slots.clone());
            loom::thread::spawn(move || link(&pool, &slots, 7))
        };
        let mine = link(&pool, &slots, 8);
        assert!(mine != other.join().unwrap());
        let guard = epoch::pin();
        assert_eq!(slots.get(0, &guard).map(|f| f[0]), Some(if mine { 8 } else { 7 }));
    });
}

#[test]
fn the_last_of_two_references_frees_the_frame_once() {
    loom::model(|| {
        let (pool, slots) = cached();
        let kept = slots.get(0, &epoch::pin()).map(CacheFrame::to_ref).unwrap();
        let other = loom::thread::spawn(move || assert_eq!(kept[0], 7));
        drop(slots);
        other.join().unwrap();
        drop(epoch::pin());
        assert_eq!(pool.lock().slab.live_bytes(), 0);
    });
}

#[test]
fn a_reader_beside_a_handover_sees_the_frame_whole_or_not_at_all() {
    loom::model(|| {
        let cache = Cache::new(64 << 10);
        let (old, new) = (Arc::new(CacheSlots::new(1)), Arc::new(CacheSlots::new(1)));
        let mut frame = cache.allocate(1);
        frame[0] = 7;
        drop(cache.insert(&old, 0, frame.freeze()));
        let reader = {
            let (old, new) = (old.clone(), new.clone());
            loom::thread::spawn(move || {
                let guard = epoch::pin();
                let seen = [&old, &new].map(|slots| slots.get(0, &guard).map(|f| f[0]));
                assert!(seen.iter().flatten().all(|&byte| byte == 7));
            })
        };
        cache.hand_over(&new, [InheritedBlock { from: old.clone(), old: 0, new: 0 }]);
        reader.join().unwrap();
        let guard = epoch::pin();
        assert!(old.get(0, &guard).is_none());
        assert_eq!(new.get(0, &guard).map(|f| f[0]), Some(7));
    });
}
