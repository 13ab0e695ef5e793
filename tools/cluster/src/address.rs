//! URLs of clusters: nodes, login and connection options.
//!
//! Invariants: an unknown option is refused by name; `Debug` does not show passwords.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use firn_cql::{Error, ErrorClass, Result};
use percent_encoding::percent_decode_str;
use scylla::frame::Compression;
use scylla::statement::{Consistency, SerialConsistency};

/// Scheme of a cluster's URL.
const SCHEME: &str = "cassandra://";
/// Scheme with TLS.
const TLS_SCHEME: &str = "cassandra+tls://";
/// Default port.
const PORT: u16 = 9042;
/// Maximum length of a URL in bytes.
const MAX_URL: usize = 16 << 10;
/// Maximum of time options in seconds: a day.
const MAX_SECONDS: f64 = 86_400.0;

/// Consistency levels, by their CQL names.
const LEVELS: [(&str, Consistency); 11] = [
    ("ANY", Consistency::Any),
    ("ONE", Consistency::One),
    ("TWO", Consistency::Two),
    ("THREE", Consistency::Three),
    ("QUORUM", Consistency::Quorum),
    ("ALL", Consistency::All),
    ("LOCAL_QUORUM", Consistency::LocalQuorum),
    ("EACH_QUORUM", Consistency::EachQuorum),
    ("SERIAL", Consistency::Serial),
    ("LOCAL_SERIAL", Consistency::LocalSerial),
    ("LOCAL_ONE", Consistency::LocalOne),
];

/// Consistency levels of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    pub consistency: Consistency,
    pub serial: SerialConsistency,
}

/// TLS options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsChoice {
    /// Certificate authorities of the nodes.
    pub authorities: Option<PathBuf>,
    /// Client certificate and key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether a node's certificate must match its address.
    pub checks_names: bool,
}

/// TLS options while parsing.
#[derive(Default)]
struct TlsUrlOptions {
    asked: Option<bool>,
    authorities: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    checks_names: Option<bool>,
}

/// The address of a cluster with connection options:
/// `cassandra://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/KEYSPACE][?OPTION=VALUE&…]`, or
/// `cassandra+tls://…`.
///
/// Characters other than letters, digits and `-._~` in a name, a password or a keyspace are written
/// as `%` and hexadecimal digits; the keyspace is case-sensitive. The default port is 9042. The
/// hosts are contact points; the cluster reports its other nodes.
///
/// | option | value | default |
/// |---|---|---|
/// | `consistency` | consistency level of reads and writes, as `QUORUM` | `LOCAL_QUORUM` |
/// | `serial_consistency` | level of conditions: `SERIAL` or `LOCAL_SERIAL` | `LOCAL_SERIAL` |
/// | `request_timeout` | timeout of a response in seconds, as `2.5`; up to a day | 30 |
/// | `connect_timeout` | timeout of a connection in seconds | 5 |
/// | `compression` | compression of requests: `none`, `lz4` or `snappy` | `none` |
/// | `page_size` | rows fetched at a time if [`RunOptions::page_size`](firn_cql::RunOptions::page_size) is not set; the result is complete nevertheless | all at once |
/// | `datacenter` | preferred data centre | any |
/// | `tls` | whether to use TLS: `true` or `false` | `true` for `cassandra+tls://` |
/// | `tls_ca` | PEM file with the certificate authorities of the nodes; required by TLS | none |
/// | `tls_certificate`, `tls_key` | PEM files with the client's certificate and its key | none |
/// | `tls_hostname` | `false`: a node's certificate may be for another name than the node's address in the cluster | `true` |
///
/// ```
/// use firn_cluster::ClusterUrl;
/// let url = ClusterUrl::parse("cassandra://ann@10.0.0.1,10.0.0.2:9142/shop?consistency=QUORUM&request_timeout=2.5")?;
/// assert_eq!(url.user(), Some("ann"));
/// assert!(!url.has_password());
/// let wrong = ClusterUrl::parse("cassandra://10.0.0.1/shop?consistancy=ONE").unwrap_err();
/// assert!(wrong.to_string().contains("consistancy"));
/// # Ok::<(), firn_cql::Error>(())
/// ```
#[derive(Clone)]
pub struct ClusterUrl {
    pub(crate) hosts: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) keyspace: Option<String>,
    pub(crate) levels: Levels,
    pub(crate) request_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) compression: Option<Compression>,
    pub(crate) page_size: Option<usize>,
    pub(crate) datacenter: Option<String>,
    pub(crate) tls: Option<TlsChoice>,
}

impl fmt::Debug for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterUrl")
            .field("hosts", &self.hosts)
            .field("user", &self.user)
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

fn wrong(text: String, help: impl Into<String>) -> Error {
    Error::Refused { class: ErrorClass::Configuration, text, help: Some(help.into()) }
}

fn decoded(what: &str, text: &str) -> Result<String> {
    let bytes = percent_decode_str(text).decode_utf8();
    let bytes =
        bytes.map_err(|_| wrong(format!("the {what} in the URL is no UTF-8"), "see %XX"))?;
    if bytes.is_empty() {
        return Err(wrong(format!("the {what} in the URL is empty"), "leave out its mark, too"));
    }
    Ok(bytes.into_owned())
}

/// Parses a host of a URL as `HOST:PORT`: `db.example`, `db.example:9142`, `[::1]:9142`, `[::1]`.
fn host(text: &str) -> Result<String> {
    let refused = || {
        let help = format!("write HOST or HOST:PORT, as 10.0.0.1:{PORT} or [::1]:{PORT}");
        wrong(format!("{text:?} is no address of a node"), help)
    };
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (text, None),
    };
    let is_six = name.starts_with('[') && name.ends_with(']');
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.is_empty() || bare.contains(['/', '@', '[', ']']) || (bare.contains(':') && !is_six) {
        return Err(refused());
    }
    let port = port.map_or(Some(PORT), |p| p.parse().ok().filter(|p| *p > 0));
    Ok(format!("{name}:{}", port.ok_or_else(refused)?))
}

fn level(option: &str, value: &str) -> Result<Consistency> {
    let found = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    let names = || LEVELS.map(|(name, _)| name).join(", ");
    let missing = || wrong(format!("{option}: there is no level {value}"), names());
    found.map(|(_, level)| *level).ok_or_else(missing)
}

fn serial(option: &str, value: &str) -> Result<SerialConsistency> {
    let refused = || {
        let text = format!("{option}: {value} is no level of conditions");
        wrong(text, "these are SERIAL and LOCAL_SERIAL")
    };
    SerialConsistency::try_from(level(option, value)?).map_err(|_| refused())
}

fn seconds(option: &str, value: &str) -> Result<Duration> {
    let given = value.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= MAX_SECONDS);
    let refused = || {
        let text = format!("{option}: {value:?} is no number of seconds");
        wrong(text, format!("write a number above 0 and up to {MAX_SECONDS}, as 2.5"))
    };
    given.map(Duration::from_secs_f64).ok_or_else(refused)
}

fn boolean(option: &str, value: &str) -> Result<bool> {
    let refused = || wrong(format!("{option}: {value:?} is neither true nor false"), "write true");
    value.parse().map_err(|_| refused())
}

impl TlsUrlOptions {
    /// Sets a TLS option; returns whether `name` is one.
    fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "tls" => self.asked = Some(boolean(name, value)?),
            "tls_ca" => self.authorities = Some(value.into()),
            "tls_certificate" => self.certificate = Some(value.into()),
            "tls_key" => self.key = Some(value.into()),
            "tls_hostname" => self.checks_names = Some(boolean(name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Combines the options. `by_scheme`: the scheme requires TLS.
    fn choice(self, by_scheme: bool) -> Result<Option<TlsChoice>> {
        let has_files =
            self.authorities.is_some() || self.certificate.is_some() || self.key.is_some();
        if !self.asked.unwrap_or(by_scheme) {
            return match by_scheme || has_files || self.checks_names.is_some() {
                true => Err(wrong(
                    "the URL has options of TLS and does not ask for it".to_owned(),
                    "write cassandra+tls://, or tls=true, or leave them out",
                )),
                false => Ok(None),
            };
        }
        let certificate = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let text = "a certificate and its key belong together".to_owned();
                return Err(wrong(text, "write both tls_certificate and tls_key"));
            }
        };
        let checks_names = self.checks_names.unwrap_or(true);
        Ok(Some(TlsChoice { authorities: self.authorities, certificate, checks_names }))
    }
}

impl Levels {
    /// Returns the levels with another consistency of reads and writes.
    pub fn with_consistency(self, name: &str) -> Result<Levels> {
        Ok(Levels { consistency: level("consistency", name)?, ..self })
    }

    /// Returns the levels with another consistency of conditions.
    pub fn with_serial(self, name: &str) -> Result<Levels> {
        Ok(Levels { serial: serial("serial_consistency", name)?, ..self })
    }

    /// Returns the names of both.
    pub fn names(self) -> (&'static str, &'static str) {
        let name = |of| LEVELS.iter().find(|(_, level)| *level == of).map_or("?", |(name, _)| name);
        let serial = match self.serial {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        };
        (name(self.consistency), name(serial))
    }
}

impl ClusterUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// `Configuration` for an invalid URL, and for an unknown option or an invalid value, with
    /// valid alternatives.
    pub fn parse(text: &str) -> Result<ClusterUrl> {
        let form = "write cassandra://[USER@]HOST[:PORT][,HOST…][/KEYSPACE][?OPTION=VALUE&…]";
        let by_scheme = text.starts_with(TLS_SCHEME);
        let rest = text.strip_prefix(SCHEME).or_else(|| text.strip_prefix(TLS_SCHEME));
        let rest = rest.filter(|_| text.len() <= MAX_URL);
        let rest = rest.ok_or_else(|| wrong("it is no URL of a cluster".to_owned(), form))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (rest, keyspace) = match rest.split_once('/') {
            Some((rest, keyspace)) => (rest, Some(keyspace).filter(|k| !k.is_empty())),
            None => (rest, None),
        };
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, rest),
        };
        let (user, password) = match login.map(|l| l.split_once(':').ok_or(l)) {
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
            None => (None, None),
        };
        let mut url = ClusterUrl {
            hosts: hosts.split(',').map(host).collect::<Result<_>>()?,
            user: user.map(|u| decoded("user", u)).transpose()?,
            password: password.map(|p| decoded("password", p)).transpose()?,
            keyspace: keyspace.map(|k| decoded("keyspace", k)).transpose()?,
            levels: Levels {
                consistency: Consistency::LocalQuorum,
                serial: SerialConsistency::LocalSerial,
            },
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            compression: None,
            page_size: None,
            datacenter: None,
            tls: None,
        };
        let mut tls = TlsUrlOptions::default();
        let mut set = |option| url.set(option, &mut tls);
        options.split('&').filter(|o| !o.is_empty()).try_for_each(&mut set)?;
        url.tls = tls.choice(by_scheme)?;
        Ok(url)
    }

    fn set(&mut self, option: &str, tls: &mut TlsUrlOptions) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = &*decoded(name, value)?;
        if tls.set(name, value)? {
            return Ok(());
        }
        match name {
            "consistency" => self.levels = self.levels.with_consistency(value)?,
            "serial_consistency" => self.levels = self.levels.with_serial(value)?,
            "request_timeout" => self.request_timeout = seconds(name, value)?,
            "connect_timeout" => self.connect_timeout = seconds(name, value)?,
            "compression" => {
                self.compression = match value {
                    "none" => None,
                    "lz4" => Some(Compression::Lz4),
                    "snappy" => Some(Compression::Snappy),
                    _ => {
                        let text = format!("{name}: there is no {value}");
                        return Err(wrong(text, "it is none, lz4 or snappy"));
                    }
                }
            }
            "page_size" => {
                let rows = value.parse().ok().filter(|n| (1..=i32::MAX as usize).contains(n));
                let refused =
                    || wrong(format!("{name}: {value:?} is no number of rows"), "write 1 or more");
                self.page_size = Some(rows.ok_or_else(refused)?);
            }
            "datacenter" => self.datacenter = Some(value.to_owned()),
            _ => {
                let known = "consistency, serial_consistency, request_timeout, connect_timeout, \
                             compression, page_size, datacenter, tls, tls_ca, tls_certificate, tls_key \
                             and tls_hostname";
                let text = format!("the URL has an option {name:?}, which there is not");
                return Err(wrong(text, format!("there are {known}")));
            }
        }
        Ok(())
    }

    /// Returns the contact points, each as `HOST:PORT`.
    pub fn nodes(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the user.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Reports whether the URL has a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns the initial keyspace.
    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// Returns the URL with this login, for passwords outside of URLs.
    pub fn with_login(self, user: impl Into<String>, password: impl Into<String>) -> ClusterUrl {
        ClusterUrl { user: Some(user.into()), password: Some(password.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_read() {
        let url = "cassandra://a%40b:p%3a%2F@h1,h2:9142,[::1]:7/ks?consistency=one&serial_consistency=SERIAL\
                   &request_timeout=0.5&connect_timeout=7&compression=lz4&page_size=7&datacenter=d%201";
        let url = ClusterUrl::parse(url).unwrap();
        assert_eq!(url.hosts, ["h1:9042", "h2:9142", "[::1]:7"]);
        assert_eq!((url.user(), url.password.as_deref()), (Some("a@b"), Some("p:/")));
        assert_eq!(url.keyspace(), Some("ks"));
        assert_eq!(url.levels.names(), ("ONE", "SERIAL"));
        assert_eq!(url.request_timeout, Duration::from_millis(500));
        assert_eq!((url.connect_timeout.as_secs(), url.page_size), (7, Some(7)));
        assert_eq!(url.compression, Some(Compression::Lz4));
        assert_eq!(url.datacenter.as_deref(), Some("d 1"));
        assert!(!format!("{url:?}").contains("p:/"));
    }

    #[test]
    fn errors_name_the_invalid_part() {
        for (url, named) in [
            ("http://h", "cassandra://"),
            ("cassandra://", "\"\""),
            ("cassandra://h:0", "\"h:0\""),
            ("cassandra://h:x", "\"h:x\""),
            ("cassandra://h,", "\"\""),
            ("cassandra://::1", "\"::1\""),
            ("cassandra://@h", "user"),
            ("cassandra://u:@h", "password"),
            ("cassandra://h/%ff", "keyspace"),
            ("cassandra://h?ssl=true", "\"ssl\""),
            ("cassandra://h?consistency=MOST", "MOST"),
            ("cassandra://h?serial_consistency=ONE", "ONE"),
            ("cassandra://h?request_timeout=0", "request_timeout"),
            ("cassandra://h?request_timeout=1e9", "request_timeout"),
            ("cassandra://h?connect_timeout=nan", "connect_timeout"),
            ("cassandra://h?compression=zip", "zip"),
            ("cassandra://h?page_size=0", "page_size"),
            ("cassandra://h?page_size", "page_size"),
        ] {
            let refused = ClusterUrl::parse(url).unwrap_err();
            assert_eq!(refused.class(), ErrorClass::Configuration, "{url}");
            assert!(refused.to_string().contains(named), "{url}: {refused}");
        }
    }
}
