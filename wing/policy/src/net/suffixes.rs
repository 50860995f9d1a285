//! Names below which strangers register their own.

use super::HostName;

/// Suffixes under which anybody gets a name, so that a wildcard there allows everybody.
/// The whole public suffix list has ten thousand entries; these are the ones in which
/// agents, tools and their users come by. A top-level domain needs no entry.
const SHARED: &[&str] = &[
    "amazonaws.com",
    "appspot.com",
    "azureedge.net",
    "azurefd.net",
    "azurewebsites.net",
    "b-cdn.net",
    "blob.core.windows.net",
    "blogspot.com",
    "cloudapp.net",
    "cloudfront.net",
    "cloudfunctions.net",
    "codeberg.page",
    "core.windows.net",
    "deno.dev",
    "digitaloceanspaces.com",
    "duckdns.org",
    "edgekey.net",
    "elb.amazonaws.com",
    "execute-api.us-east-1.amazonaws.com",
    "fastly.net",
    "firebaseapp.com",
    "fly.dev",
    "github.dev",
    "github.io",
    "gitlab.io",
    "gitpod.io",
    "glitch.me",
    "googleusercontent.com",
    "herokuapp.com",
    "hf.space",
    "lambda-url.us-east-1.on.aws",
    "linodeobjects.com",
    "loca.lt",
    "lhr.life",
    "modal.run",
    "myshopify.com",
    "netlify.app",
    "ngrok-free.app",
    "ngrok-free.dev",
    "ngrok.app",
    "ngrok.dev",
    "ngrok.io",
    "nip.io",
    "oast.fun",
    "oast.pro",
    "on.aws",
    "onrender.com",
    "pages.dev",
    "r2.dev",
    "railway.app",
    "readthedocs.io",
    "repl.co",
    "replit.app",
    "replit.dev",
    "run.app",
    "s3.amazonaws.com",
    "serveo.net",
    "sslip.io",
    "storage.googleapis.com",
    "supabase.co",
    "surge.sh",
    "trafficmanager.net",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "windows.net",
    "workers.dev",
    "xip.io",
];

/// What stands below a country's domain where names are registered one level down.
const SECOND_LEVEL: &[&str] = &[
    "ac", "asn", "co", "com", "edu", "go", "gob", "gov", "gouv", "ltd", "me", "mil", "ne", "net",
    "nhs", "nom", "or", "org", "plc", "sch",
];

/// Whether a wildcard directly below `name` would allow strangers.
pub(super) fn is_shared(name: &HostName) -> bool {
    let labels: Vec<&str> = name.labels().collect();
    match labels.as_slice() {
        [_] => true,
        [second, country] if country.len() == 2 && SECOND_LEVEL.contains(second) => true,
        _ => SHARED.contains(&name.as_str()),
    }
}
