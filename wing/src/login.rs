//! Signing a device in to a roost, and out again (RFC 8628).

use std::time::Duration;

use tokio::time::{Instant, sleep};
use wt_protocol::api::{
    ACCESS_DENIED, AUTHORIZATION_PENDING, DeviceCodeRequest, DeviceCodeResponse, EXPIRED_TOKEN,
    RoostInfo, SLOW_DOWN, TokenResponse, Whoami,
};
use wt_protocol::keys::DeviceKey;

use crate::error::{Error, ErrorCode};
use crate::http::{Http, loopback_port, parse_origin};
use crate::profile::{Profile, ROOST_VERSION, RoostLogin};

/// What a poll that was too early adds to the wait (RFC 8628 section 3.5).
const SLOW_DOWN_STEP: Duration = Duration::from_secs(5);

/// A login that waits for somebody to approve it.
pub struct Pending {
    profile: Profile,
    http: Http,
    origin: String,
    info: RoostInfo,
    code: DeviceCodeResponse,
}

/// A finished login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The roost.
    pub roost: String,
    /// The account that approved this device.
    pub account: String,
}

/// Starts a login at a roost; with none given, at the one that the profile knows.
///
/// # Errors
/// That the roost cannot be reached, or is another than this profile's.
pub async fn start(profile: &Profile, roost: Option<&str>) -> Result<Pending, Error> {
    let known = profile.roost()?;
    let origin = match (roost, &known) {
        (Some(url), _) => parse_origin(url)?,
        (None, Some(known)) => known.origin.clone(),
        (None, None) => {
            return Err(
                Error::new(ErrorCode::Usage, "no roost is known to this profile")
                    .hint("say which: wt login --roost URL"),
            );
        }
    };
    let http = Http::new(&origin)?;
    let info = http.info().await?;
    let origin = agreed_origin(&origin, &info.origin)?;
    check_same(known.as_ref(), &origin, &info)?;
    let device = profile.device_secret()?;
    let client = profile.client_secret()?.public();
    let request = DeviceCodeRequest {
        device_name: device_name(&device.public()),
        device: device.public(),
        client,
        client_signature: device.vouch_for(&client),
    };
    let code = http.device_code(&request).await?;
    Ok(Pending {
        profile: profile.clone(),
        http,
        origin,
        info,
        code,
    })
}

impl Pending {
    /// What the user types.
    pub fn user_code(&self) -> &str {
        &self.code.user_code
    }

    /// Where the user types it.
    pub fn verification_uri(&self) -> &str {
        &self.code.verification_uri
    }

    /// Seconds until the code runs out.
    pub fn expires_in(&self) -> u32 {
        self.code.expires_in
    }

    /// Waits for the approval, and stores the login.
    ///
    /// # Errors
    /// That it was refused or ran out, or that another account approved than before.
    pub async fn wait(self) -> Result<Login, Error> {
        let deadline = Instant::now() + Duration::from_secs(self.code.expires_in.into());
        let mut interval = Duration::from_secs(self.code.interval.max(1).into());
        let device = self.profile.device_secret()?;
        let token = loop {
            sleep(interval).await;
            if Instant::now() > deadline {
                return Err(ran_out());
            }
            match self
                .http
                .device_token(&device, &self.code.device_code)
                .await
            {
                Ok(Ok(token)) => break token,
                Ok(Err(word)) if word == AUTHORIZATION_PENDING => {}
                Ok(Err(word)) if word == SLOW_DOWN => interval += SLOW_DOWN_STEP,
                Ok(Err(word)) if word == EXPIRED_TOKEN => return Err(ran_out()),
                Ok(Err(word)) if word == ACCESS_DENIED => {
                    return Err(Error::new(ErrorCode::Refused, "the login was refused"));
                }
                Ok(Err(_)) => return Err(Error::failed("the roost ended the login")),
                // A roost that restarts is waited for.
                Err(error) if error.code == ErrorCode::Unreachable => {}
                Err(error) => return Err(error),
            }
        };
        self.store(token)
    }

    fn store(self, token: TokenResponse) -> Result<Login, Error> {
        if let Some(known) = self.profile.roost()?
            && known.account != token.account
        {
            let message = format!(
                "this profile belongs to the account {} at {}, and {} approved it",
                known.account, known.origin, token.account
            );
            return Err(Error::new(ErrorCode::IdentityMismatch, message)
                .hint("use another profile: set WINGTHING_DIR to another folder"));
        }
        let login = login_of(&self.origin, &self.info, token.account, true);
        self.profile.write_roost(&login)?;
        Ok(Login {
            roost: login.origin,
            account: login.account,
        })
    }
}

/// What a profile stores of a roost.
pub fn login_of(origin: &str, info: &RoostInfo, account: String, signed_in: bool) -> RoostLogin {
    RoostLogin {
        version: ROOST_VERSION,
        origin: origin.to_owned(),
        quic_addr: info.quic_addr.clone(),
        quic_spki: info.quic_spki,
        grant_key: info.grant_key,
        behind_proxy: info.behind_proxy,
        account,
        signed_in,
    }
}

/// What a device calls itself to a relay: the start of its key. A relay is not to learn
/// host names.
pub fn device_name(device: &DeviceKey) -> String {
    let key = device.to_string();
    format!("device {}", &key[..8])
}

/// The origin that both ends sign. Two names of one loopback port are one roost; anything
/// else would let a relay pass on what was meant for another.
fn agreed_origin(given: &str, own: &str) -> Result<String, Error> {
    let own_parsed = parse_origin(own)?;
    if given == own_parsed
        || loopback_port(given).is_some_and(|port| Some(port) == loopback_port(&own_parsed))
    {
        return Ok(own_parsed);
    }
    Err(Error::new(
        ErrorCode::IdentityMismatch,
        format!("the roost at {given} calls itself {own_parsed}"),
    )
    .hint(format!(
        "if that is the one you mean: wt login --roost {own_parsed}"
    )))
}

/// A roost is its origin and its keys: with other keys it is another one.
fn check_same(known: Option<&RoostLogin>, origin: &str, info: &RoostInfo) -> Result<(), Error> {
    let Some(known) = known else { return Ok(()) };
    if known.origin != origin {
        let message = format!("this profile belongs to {}, not {origin}", known.origin);
        return Err(Error::new(ErrorCode::IdentityMismatch, message)
            .hint("use another profile for another roost: set WINGTHING_DIR to another folder"));
    }
    if (known.quic_spki, known.grant_key) != (info.quic_spki, info.grant_key) {
        let message = format!(
            "{origin} is not the roost that this profile knows: its link key was {} and is {}",
            known.quic_spki, info.quic_spki
        );
        return Err(Error::new(ErrorCode::IdentityMismatch, message)
            .hint("ask the roost's operator whether its keys were replaced"));
    }
    Ok(())
}

/// Signs this profile out: the relay forgets the device, and the profile what it may do.
/// Keys and pins stay.
///
/// # Errors
/// That the profile is not signed in, or that the relay could not be told.
pub async fn logout(profile: &Profile) -> Result<Login, Error> {
    let login = signed_in(profile, None)?;
    let http = Http::new(&login.origin)?;
    let device = profile.device_secret()?;
    let told = async {
        let token = http.token(&device).await?;
        http.logout(&device, &token.access_token).await
    };
    match told.await {
        Ok(()) => {}
        // A relay that does not know the device needs no telling.
        Err(error) if error.code == ErrorCode::Refused => {}
        Err(error) => return Err(error),
    }
    profile.write_roost(&RoostLogin {
        signed_in: false,
        ..login.clone()
    })?;
    Ok(Login {
        roost: login.origin,
        account: login.account,
    })
}

/// Asks the relay who this profile is.
///
/// # Errors
/// That the profile is not signed in, or that the relay does not say.
pub async fn whoami(profile: &Profile) -> Result<(RoostLogin, Whoami), Error> {
    let login = signed_in(profile, None)?;
    let http = Http::new(&login.origin)?;
    let device = profile.device_secret()?;
    let token = http.token(&device).await?;
    let whoami = http.whoami(&device, &token.access_token).await?;
    Ok((login, whoami))
}

/// The roost that a profile is signed in to; the one given must be it.
///
/// # Errors
/// [`ErrorCode::Refused`] with the command that signs in.
pub fn signed_in(profile: &Profile, roost: Option<&str>) -> Result<RoostLogin, Error> {
    let wanted = roost.map(parse_origin).transpose()?;
    let login = profile.roost()?.filter(|login| login.signed_in);
    match (login, wanted) {
        (Some(login), None) => Ok(login),
        (Some(login), Some(wanted))
            if login.origin == wanted
                || loopback_port(&wanted)
                    .is_some_and(|port| Some(port) == loopback_port(&login.origin)) =>
        {
            Ok(login)
        }
        (_, wanted) => {
            let which = wanted.unwrap_or_else(|| "URL".to_owned());
            Err(Error::new(
                ErrorCode::Refused,
                "this profile is not signed in to that roost",
            )
            .hint(format!("wt login --roost {which}")))
        }
    }
}

fn ran_out() -> Error {
    Error::new(ErrorCode::TimedOut, "nobody approved the login in time").hint("run wt login again")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_one_loopback_port_are_one_roost_and_nothing_else_is() {
        let own = "http://127.0.0.1:8080";

        for given in [own, "http://localhost:8080", "http://[::1]:8080"] {
            assert_eq!(agreed_origin(given, own).unwrap(), own);
        }
        for (given, own) in [
            ("http://localhost:8081", own),
            ("https://roost.example.org", own),
            ("https://roost.example.org", "https://other.example.org"),
        ] {
            assert_eq!(
                agreed_origin(given, own).unwrap_err().code,
                ErrorCode::IdentityMismatch
            );
        }
    }
}
