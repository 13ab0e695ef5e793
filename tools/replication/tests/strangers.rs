//! Passwords, other stores, other writers, and peers that send anything.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::{Db, Env, ErrorKind, OsEnv};
use firn_replication::{Primary, Replica, ReplicaOptions};
use firn_testkit::rng::Rng;

use crate::common::{
    DIR, assert_equal, catch_up, db_options, mem, open, open_with_key, primary, primary_options,
    replica, replica_options, small, wait,
};

#[test]
fn both_sides_must_know_the_password() {
    let home = mem();
    let db = open_with_key(&home);
    let mut options = primary_options();
    options.password = Some("secret".into());
    let serving = Primary::start_in(home.clone(), &db, options).unwrap();
    let open_one = primary(&home, &db);
    let tries = [
        (&serving, None, Some("the primary requires a password")),
        (&serving, Some("wrong"), Some("the password of the replica is wrong")),
        (&open_one, Some("secret"), Some("the primary has no password")),
        (&serving, Some("secret"), None),
        (&open_one, None, None),
    ];
    for (primary, password, refusal) in tries {
        let mut options = replica_options(primary);
        options.password = password.map(str::to_owned);
        let copy = Replica::start_in(mem(), DIR, options).unwrap();
        match refusal {
            Some(words) => {
                wait("the refusal", || copy.status().error.is_some());
                let status = copy.status();
                assert!(status.error.as_ref().unwrap().contains(words), "{status:?}");
                assert!(copy.reader().is_none() && !status.is_connected);
            }
            None => assert_equal(&db, &copy),
        }
    }
}

#[test]
fn a_replica_that_was_written_to_is_refused() {
    let (home, away) = (mem(), mem());
    let db = open_with_key(&home);
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    catch_up(&db, &copy);
    copy.stop();
    let other = open(&away);
    other.existing_tree("t").unwrap().put("k", "w").unwrap();
    drop(other);
    drop(copy);
    let e = Replica::start_in(away.clone(), DIR, replica_options(&serving)).unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidArgument && e.message().contains("written to"), "{e}");
    // Another store is no replica.
    let plain = mem();
    drop(open(&plain));
    let own = Db::open_in(plain.clone(), DIR, db_options()).unwrap();
    own.tree("own", small()).unwrap().put("k", "v").unwrap();
    drop(own);
    let e = Replica::start_in(plain.clone(), DIR, replica_options(&serving)).unwrap_err();
    assert!(e.message().contains("no replica"), "{e}");
    assert_eq!(open(&plain).tree_names(), ["own"]);
}

#[test]
fn the_primary_of_another_store_is_refused() {
    let (home, away, elsewhere) = (mem(), mem(), mem());
    let db = open_with_key(&home);
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    catch_up(&db, &copy);
    copy.stop();
    drop(copy);
    let other = open(&elsewhere);
    other.tree("t", small()).unwrap().put("k", "other").unwrap();
    let other_one = primary(&elsewhere, &other);
    let copy = replica(&away, &other_one);
    wait("the refusal", || {
        copy.status().error.is_some_and(|e| e.contains("the primary has the store"))
    });
    let seen = copy.reader().unwrap();
    assert_eq!(seen.existing_tree("t").unwrap().get("k").unwrap().unwrap(), "v");
}

#[test]
fn a_directory_has_one_replica() {
    let (home, away) = (mem(), mem());
    let db = open(&home);
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    let e = Replica::start_in(away.clone(), DIR, replica_options(&serving)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Locked);
    drop(copy);
    drop(replica(&away, &serving));
}

/// Sends random and damaged bytes to a primary: it goes on serving.
#[test]
fn a_primary_survives_any_peer() {
    let (home, away) = (mem(), mem());
    let db = open_with_key(&home);
    let serving = primary(&home, &db);
    let mut rng = Rng::new(1);
    for _ in 0..100 {
        let mut socket = TcpStream::connect(serving.address()).unwrap();
        let mut bytes = vec![0; rng.below(200) as usize];
        rng.fill(&mut bytes);
        if rng.one_in(2) && bytes.len() > 8 {
            // A plausible length.
            let len = bytes.len() as u32 - 8;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
        }
        // The primary may close the connection before it has read everything.
        let _ = socket.write_all(&bytes);
        if rng.one_in(2) {
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read_to_end(&mut vec![]);
        }
    }
    assert_equal(&db, &replica(&away, &serving));
}

#[test]
fn silent_connections_keep_no_replica_out() {
    let (home, away) = (mem(), mem());
    let db = open_with_key(&home);
    let serving = primary(&home, &db);
    let silent: Vec<_> = (0..70).map(|_| TcpStream::connect(serving.address()).unwrap()).collect();
    assert_equal(&db, &replica(&away, &serving));
    drop(silent);
}

/// Passes bytes of a primary on to a replica with some of them changed. The replica never has a
/// wrong content, and writes no file outside its directory.
#[test]
fn a_replica_survives_damage_on_the_way() {
    let home = mem();
    let db = open(&home);
    let tree = db.tree("t", small()).unwrap();
    (0..2000u32).for_each(|n| tree.put(n.to_be_bytes(), [3; 100]).unwrap());
    tree.flush().unwrap();
    (0..200u32).for_each(|n| tree.put(n.to_be_bytes(), [4; 100]).unwrap());
    let serving = primary(&home, &db);
    let to = serving.address();
    for seed in 0..12 {
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = relay.local_addr().unwrap();
        let work = move || {
            let mut rng = Rng::new(seed);
            let mut left = 6;
            for client in relay.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(to) else { return };
                let (mut from, mut back) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                let up = OsEnv::new()
                    .spawn("up", Box::new(move || drop(std::io::copy(&mut from, &mut back))))
                    .unwrap();
                let (mut client, mut server) = (client, server);
                let mut part = [0; 4096];
                while let Ok(n @ 1..) = server.read(&mut part) {
                    if left > 0 && rng.one_in(20) {
                        left -= 1;
                        part[rng.below(n as u64) as usize] ^= 1 << rng.below(8);
                    }
                    if client.write_all(&part[..n]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
                up.join();
            }
        };
        let relaying = OsEnv::new().spawn("relay", Box::new(work)).unwrap();
        let away: Arc<dyn Env> = Arc::new(firn_crash::CrashEnv::new(seed));
        let mut options = ReplicaOptions::of(at.to_string(), format!("copy {seed}"));
        options.store = db_options();
        let copy = Replica::start_in(away.clone(), DIR, options).unwrap();
        assert_equal(&db, &copy);
        drop(copy);
        assert_eq!(away.list(Path::new("/")).unwrap(), ["store"]);
        drop(TcpStream::connect(at).unwrap());
        drop(relaying);
    }
}

#[test]
fn a_replica_needs_a_name_and_reports_that_it_waits() {
    let mut options = ReplicaOptions::of("127.0.0.1:1", "");
    assert_eq!(
        Replica::start_in(mem(), DIR, options.clone()).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    options.name = "copy".into();
    let copy = Replica::start_in(mem(), DIR, options).unwrap();
    let e = copy.wait_for_copy(Duration::from_millis(300)).unwrap_err();
    assert!(e.message().contains("no copy of the primary yet"), "{e}");
    assert_eq!(copy.promote().map(drop).unwrap_err().kind(), ErrorKind::NotFound);
}
