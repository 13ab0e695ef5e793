//! Decides which requests are answered, and as whom.
//!
//! Invariant: a POST has the token of the page in a header that a page of another site cannot send.

use std::sync::Arc;

use firn_cql::Session;
use firn_kv::Env;
use firn_server::http::{HttpAccess, HttpLogin, HttpRequest, HttpResponse, forbidden, is_equal};

/// Header with the token.
const TOKEN_HEADER: &str = "x-firn-token";

/// Checks of requests.
pub struct Access {
    logins: HttpAccess,
    token: String,
}

impl Access {
    /// Creates the checks, with a new token.
    pub fn new(env: Arc<dyn Env>, login: HttpLogin) -> Access {
        let token = format!("{:016x}{:016x}", env.random(), env.random());
        Access { logins: HttpAccess::new(env, login), token }
    }

    /// Returns the token of the page.
    pub fn token(&self) -> &str {
        &self.token
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
        let session = self.logins.check(request, session)?;
        if request.method == "POST" {
            let host = request.header("host").unwrap_or_default();
            let origin = request.header("origin").and_then(|o| o.split_once("://"));
            if origin.is_some_and(|(_, of)| of != host) {
                return Err(forbidden("the request is from the page of another site\n"));
            }
            if !is_equal(request.header(TOKEN_HEADER).unwrap_or_default(), &self.token) {
                return Err(forbidden(
                    "the token of the page is missing or old: reload the page\n",
                ));
            }
        }
        Ok(session)
    }
}
