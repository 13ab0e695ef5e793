//! Decides which requests of an HTTP port are answered, and as whom.
//!
//! Invariants:
//! - Without a login, the `Host` of a request is an address or `localhost`. A page of another site
//!   has the name of that site as its host, even if the name resolves to this machine.
//! - Passwords are compared in constant time. Checks of roles run one at a time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firn_cql::Session;
use firn_kv::Env;
use parking_lot::Mutex;

use super::{HttpRequest, HttpResponse};

/// Maximum number of remembered successful logins.
const MAX_LOGINS: usize = 16;
/// Delay after a failed login.
const FAILED_LOGIN_DELAY: Duration = Duration::from_millis(200);

/// Logins that a port requires.
#[derive(Clone, PartialEq, Eq)]
pub enum HttpLogin {
    /// None. Only for a loopback address.
    Open,
    /// This password, with any name.
    Password(String),
    /// A superuser of the store.
    Roles,
}

impl std::fmt::Debug for HttpLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HttpLogin::Open => "Open",
            HttpLogin::Password(_) => "Password(…)",
            HttpLogin::Roles => "Roles",
        })
    }
}

/// Checks of requests.
pub struct HttpAccess {
    env: Arc<dyn Env>,
    login: HttpLogin,
    /// Authorization headers with the sessions of their roles, least recently added first.
    known: Mutex<Vec<(String, Session)>>,
}

/// Reports whether two texts are equal, in a time that depends only on their lengths.
pub fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Reports whether a `Host` header is an address or `localhost`, with or without a port.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Returns the response of a refused request.
pub fn forbidden(text: &'static str) -> HttpResponse {
    HttpResponse::text("403 Forbidden", text)
}

fn login_required() -> HttpResponse {
    let mut response = HttpResponse::text("401 Unauthorized", "log in\n");
    let scheme = "Basic realm=\"Firn\", charset=\"UTF-8\"";
    response.headers.push(("WWW-Authenticate", scheme.to_owned()));
    response
}

impl std::fmt::Debug for HttpAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpAccess").field("login", &self.login).finish_non_exhaustive()
    }
}

impl HttpAccess {
    /// Creates the checks.
    pub fn new(env: Arc<dyn Env>, login: HttpLogin) -> HttpAccess {
        HttpAccess { env, login, known: Mutex::default() }
    }

    /// Returns the session for statements of this request: that of its role, if logins are those of
    /// roles, else `session`.
    ///
    /// # Errors
    /// The response of a refused request.
    pub fn check(
        &self,
        request: &HttpRequest,
        session: Option<Session>,
    ) -> Result<Option<Session>, HttpResponse> {
        let host = request.header("host").unwrap_or_default();
        if matches!(self.login, HttpLogin::Open) && !is_address(host) {
            return Err(forbidden("open this port by an address, or as localhost\n"));
        }
        self.log_in(request, session)
    }

    fn log_in(
        &self,
        request: &HttpRequest,
        session: Option<Session>,
    ) -> Result<Option<Session>, HttpResponse> {
        if matches!(self.login, HttpLogin::Open) {
            return Ok(session);
        }
        let header = request.header("authorization").ok_or_else(login_required)?;
        let (name, password) = credentials(header).ok_or_else(login_required)?;
        let failed = || {
            self.env.sleep(FAILED_LOGIN_DELAY);
            login_required()
        };
        match &self.login {
            HttpLogin::Open => Ok(session),
            HttpLogin::Password(wanted) if is_equal(&password, wanted) => Ok(session),
            HttpLogin::Password(_) => Err(failed()),
            HttpLogin::Roles => {
                let session = session.ok_or_else(login_required)?;
                self.role_session(header, &name, &password, &session).map(Some).ok_or_else(failed)
            }
        }
    }

    /// Returns the session of a superuser. A successful check is remembered, because each takes
    /// much memory and time. A changed password ends that at the next start.
    fn role_session(
        &self,
        header: &str,
        name: &str,
        password: &str,
        session: &Session,
    ) -> Option<Session> {
        let mut known = self.known.lock();
        if let Some((_, session)) = known.iter().find(|(h, _)| is_equal(h, header)) {
            let is_superuser = is_superuser(session, name);
            return (is_superuser && session.check_login().is_ok()).then(|| session.clone());
        }
        let session = session.clone();
        session.log_in(name, password).ok()?;
        if !is_superuser(&session, name) {
            return None;
        }
        if known.len() == MAX_LOGINS {
            known.remove(0);
        }
        known.push((header.to_owned(), session.clone()));
        Some(session)
    }
}

fn is_superuser(session: &Session, name: &str) -> bool {
    session.engine().catalog().role(name).is_some_and(|role| role.is_superuser)
}

/// Returns the name and the password of an authorization header.
fn credentials(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// Reports whether a request is not from the page of another site: browsers name the site.
pub fn is_same_site(request: &HttpRequest) -> bool {
    let host = request.header("host").unwrap_or_default();
    let origin = request.header("origin").map(|o| o.split_once("://").map_or(o, |(_, of)| of));
    let site = request.header("sec-fetch-site");
    origin.is_none_or(|of| of == host) && site.is_none_or(|s| matches!(s, "same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_this_machine() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:80", "[::1]", "10.0.0.7"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["", "example.org", "127.0.0.1.example.org:80", "localhost.example.org", "[x]"]
        {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn credentials_are_decoded() {
        let header = format!("Basic {}", BASE64_STANDARD.encode("ann:a:b"));
        assert_eq!(credentials(&header), Some(("ann".into(), "a:b".into())));
        for bad in ["", "Basic", "Basic !", "Bearer YTpi", "Basic YQ=="] {
            assert_eq!(credentials(bad), None, "{bad}");
        }
        assert!(is_equal("ab", "ab") && !is_equal("ab", "abc") && !is_equal("ab", "ac"));
    }
}
