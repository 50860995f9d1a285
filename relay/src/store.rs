//! What survives a restart: accounts, devices and wings, in SQLite.
//!
//! Statements use `$n` placeholders and types that Postgres shares, so that one set of
//! functions can serve both. Nothing here knows what a wing runs or is called.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
};
use sqlx::{Row, SqlSafeStr};
use wt_files::FileError;
use wt_protocol::WingId;
use wt_protocol::control::{NoiseKeyStatement, WingProof};
use wt_protocol::keys::{ClientKey, DeviceKey, IdentityKey, NoiseKey, Signature};

use crate::accounts::AccountId;

/// How long a statement waits for another process's lock before it fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections at once. SQLite has one writer; readers are short.
const MAX_CONNECTIONS: u32 = 4;

/// Wings of one account. Bounds the roster (under 400 bytes each) and the table.
const MAX_WINGS: i64 = 1_000;

/// Devices of one account that are not revoked.
const MAX_DEVICES: i64 = 1_000;

/// The store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file or its folder is not usable.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is damaged, or is no database. It is never reset.
    #[error("{path} is damaged or no wingthing relay database: {detail}; restore it from a backup")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// A later version of this program wrote the file.
    #[error(
        "{path} was written by a newer wt-relay (schema {version}): run that version or a later one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The first schema step that is unknown here.
        version: i64,
    },
    /// A statement failed.
    #[error("the relay's database did not answer: {0}")]
    Query(#[from] sqlx::Error),
}

/// A device that may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) account: AccountId,
    pub(crate) name: String,
    pub(crate) generation: u64,
}

/// A device as it enrols: its signature over the client key is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enrolment {
    pub(crate) device: DeviceKey,
    pub(crate) client: ClientKey,
    pub(crate) client_signature: Signature,
    pub(crate) device_name: String,
}

/// A wing in an account's roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredWing {
    pub(crate) wing_id: WingId,
    pub(crate) identity: IdentityKey,
    pub(crate) statement: NoiseKeyStatement,
}

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegisterOutcome {
    Registered,
    OtherAccount,
    Superseded,
    Full,
}

/// What became of an enrolment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnrolOutcome {
    Enrolled,
    /// The device is signed in elsewhere. Otherwise whoever saw its enrolment could
    /// move it into an account of theirs.
    OtherAccount,
    Full,
}

/// The database. Cheap to clone; any task may call it.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pool: SqlitePool,
}

impl Store {
    /// Opens the database file, making or migrating it as needed.
    pub(crate) async fn open(path: &Path) -> Result<Self, StoreError> {
        // SQLite makes its side files with the mode of the database.
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|e| FileError::io("open", path, e))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .connect_with(options)
            .await
            .map_err(|e| at_open(path, e))?;
        let verdict: String = sqlx::query_scalar("PRAGMA quick_check(1)")
            .fetch_one(&pool)
            .await
            .map_err(|e| at_open(path, e))?;
        if verdict != "ok" {
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                detail: verdict,
            });
        }
        migrations().run(&pool).await.map_err(|e| match e {
            MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => {
                StoreError::Newer {
                    path: path.to_owned(),
                    version,
                }
            }
            MigrateError::Execute(e) => at_open(path, e),
            other => StoreError::Damaged {
                path: path.to_owned(),
                detail: other.to_string(),
            },
        })?;
        Ok(Self { pool })
    }

    /// Closes every connection; the file may be opened by another process afterwards.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Whether the database answers.
    pub(crate) async fn answers(&self) -> bool {
        sqlx::query("SELECT 1").execute(&self.pool).await.is_ok()
    }

    /// The device with this key, unless it is revoked.
    pub(crate) async fn device(&self, key: &DeviceKey) -> Result<Option<Device>, StoreError> {
        let row = sqlx::query(
            "SELECT account, device_name, generation FROM devices \
             WHERE device = $1 AND revoked_at IS NULL",
        )
        .bind(key.as_bytes().as_slice())
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| {
            Ok(Device {
                account: AccountId::new(row.try_get::<String, _>(0)?),
                name: row.try_get(1)?,
                generation: row.try_get::<i64, _>(2)?.cast_unsigned(),
            })
        })
        .transpose()
    }

    /// Puts a device into an account, which is made if there is none of that name.
    ///
    /// A device that was revoked starts a new generation, so that no older token of it
    /// comes back to life.
    pub(crate) async fn enrol(
        &self,
        account: &AccountId,
        enrolment: &Enrolment,
        now: SystemTime,
    ) -> Result<EnrolOutcome, StoreError> {
        let now = seconds(now);
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query(
            "INSERT INTO accounts (account, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(account.as_str())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        let elsewhere = sqlx::query(
            "SELECT 1 FROM devices WHERE device = $1 AND account <> $2 AND revoked_at IS NULL",
        )
        .bind(enrolment.device.as_bytes().as_slice())
        .bind(account.as_str())
        .fetch_optional(&mut *tx)
        .await?;
        if elsewhere.is_some() {
            return Ok(EnrolOutcome::OtherAccount);
        }
        let others: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM devices \
             WHERE account = $1 AND revoked_at IS NULL AND device <> $2",
        )
        .bind(account.as_str())
        .bind(enrolment.device.as_bytes().as_slice())
        .fetch_one(&mut *tx)
        .await?;
        if others >= MAX_DEVICES {
            return Ok(EnrolOutcome::Full);
        }
        sqlx::query(
            "INSERT INTO devices (device, account, client, client_signature, device_name, \
                                  generation, enrolled_at) \
             VALUES ($1, $2, $3, $4, $5, 1, $6) \
             ON CONFLICT (device) DO UPDATE SET \
                 generation = devices.generation + (CASE WHEN devices.revoked_at IS NULL \
                     THEN 0 ELSE 1 END), \
                 account = excluded.account, client = excluded.client, \
                 client_signature = excluded.client_signature, \
                 device_name = excluded.device_name, enrolled_at = excluded.enrolled_at, \
                 revoked_at = NULL",
        )
        .bind(enrolment.device.as_bytes().as_slice())
        .bind(account.as_str())
        .bind(enrolment.client.as_bytes().as_slice())
        .bind(enrolment.client_signature.as_bytes().as_slice())
        .bind(enrolment.device_name.as_str())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(EnrolOutcome::Enrolled)
    }

    /// Revokes a device; false when there was nothing to revoke.
    pub(crate) async fn revoke_device(
        &self,
        key: &DeviceKey,
        now: SystemTime,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE devices SET revoked_at = $2 WHERE device = $1 AND revoked_at IS NULL",
        )
        .bind(key.as_bytes().as_slice())
        .bind(seconds(now))
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Enters a wing under an account, or refreshes its statement.
    pub(crate) async fn register_wing(
        &self,
        account: &AccountId,
        proof: &WingProof,
        now: SystemTime,
    ) -> Result<RegisterOutcome, StoreError> {
        // SQL has signed numbers; a counter that grows by one never gets there.
        let Ok(seq) = i64::try_from(proof.statement.seq) else {
            return Ok(RegisterOutcome::Superseded);
        };
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let known = sqlx::query("SELECT account, noise_key, seq FROM wings WHERE wing_id = $1")
            .bind(proof.statement.wing.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        if let Some(row) = known {
            if row.try_get::<String, _>(0)? != account.as_str() {
                return Ok(RegisterOutcome::OtherAccount);
            }
            let known_seq: i64 = row.try_get(2)?;
            let same_key = row.try_get::<Vec<u8>, _>(1)? == proof.statement.key.as_bytes();
            if seq < known_seq || (seq == known_seq && !same_key) {
                return Ok(RegisterOutcome::Superseded);
            }
        } else {
            let wings: i64 = sqlx::query_scalar("SELECT count(*) FROM wings WHERE account = $1")
                .bind(account.as_str())
                .fetch_one(&mut *tx)
                .await?;
            if wings >= MAX_WINGS {
                return Ok(RegisterOutcome::Full);
            }
        }
        sqlx::query(
            "INSERT INTO wings (wing_id, account, identity, noise_key, statement_signature, \
                                seq, first_seen, last_seen) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
             ON CONFLICT (wing_id) DO UPDATE SET \
                 noise_key = excluded.noise_key, seq = excluded.seq, \
                 statement_signature = excluded.statement_signature, \
                 last_seen = excluded.last_seen",
        )
        .bind(proof.statement.wing.as_str())
        .bind(account.as_str())
        .bind(proof.identity.as_bytes().as_slice())
        .bind(proof.statement.key.as_bytes().as_slice())
        .bind(proof.statement.signature.as_bytes().as_slice())
        .bind(seq)
        .bind(seconds(now))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(RegisterOutcome::Registered)
    }

    /// The wings of an account, sorted by id.
    pub(crate) async fn wings(&self, account: &AccountId) -> Result<Vec<StoredWing>, StoreError> {
        let rows = sqlx::query(
            "SELECT wing_id, identity, noise_key, seq, statement_signature FROM wings \
             WHERE account = $1 ORDER BY wing_id",
        )
        .bind(account.as_str())
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(read_wing).collect()
    }
}

fn read_wing(row: &SqliteRow) -> Result<StoredWing, StoreError> {
    let wing_id: WingId = row
        .try_get::<String, _>(0)?
        .parse()
        .map_err(|e| sqlx::Error::Decode(Box::new(e)))?;
    Ok(StoredWing {
        identity: IdentityKey::from_bytes(bytes(row, 1)?),
        statement: NoiseKeyStatement {
            wing: wing_id.clone(),
            key: NoiseKey::from_bytes(bytes(row, 2)?),
            seq: row.try_get::<i64, _>(3)?.cast_unsigned(),
            signature: Signature::from_bytes(bytes(row, 4)?),
        },
        wing_id,
    })
}

fn bytes<const N: usize>(row: &SqliteRow, column: usize) -> Result<[u8; N], sqlx::Error> {
    row.try_get::<Vec<u8>, _>(column)?
        .try_into()
        .map_err(|v: Vec<u8>| {
            sqlx::Error::Decode(format!("column {column} has {} bytes, not {N}", v.len()).into())
        })
}

/// Seconds since 1970, as the tables have them.
fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

fn migrations() -> Migrator {
    Migrator::with_migrations(vec![Migration::new(
        1,
        "first".into(),
        MigrationType::Simple,
        include_str!("../migrations/0001_first.sql").into_sql_str(),
        false,
    )])
}

/// Sorts what SQLite says of a file it should open.
fn at_open(path: &Path, error: sqlx::Error) -> StoreError {
    /// Primary result codes (sqlite.org/rescode.html): SQLITE_CORRUPT and SQLITE_NOTADB.
    const DAMAGED: [i32; 2] = [11, 26];
    let code = error
        .as_database_error()
        .and_then(|e| e.code()?.parse::<i32>().ok());
    match code {
        // The low byte of an extended code is its primary code.
        Some(code) if DAMAGED.contains(&(code & 0xff)) => StoreError::Damaged {
            path: path.to_owned(),
            detail: error.to_string(),
        },
        _ => StoreError::Query(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_wing_stays_with_the_account_that_registered_it() {
        let (store, _dir) = store().await;
        let wing = proof(1, 1, 1);

        let mine = store.register_wing(&account("a"), &wing, now()).await;
        let theirs = store.register_wing(&account("b"), &wing, now()).await;

        assert_eq!(mine.unwrap(), RegisterOutcome::Registered);
        assert_eq!(theirs.unwrap(), RegisterOutcome::OtherAccount);
        assert_eq!(store.wings(&account("a")).await.unwrap().len(), 1);
        assert_eq!(store.wings(&account("b")).await.unwrap(), vec![]);
    }

    #[tokio::test]
    async fn a_statement_never_goes_back() {
        let (store, _dir) = store().await;
        let a = account("a");
        let register = async |proof| store.register_wing(&a, &proof, now()).await.unwrap();

        assert_eq!(register(proof(1, 2, 1)).await, RegisterOutcome::Registered);
        assert_eq!(register(proof(1, 2, 1)).await, RegisterOutcome::Registered);
        assert_eq!(register(proof(1, 2, 9)).await, RegisterOutcome::Superseded);
        assert_eq!(register(proof(1, 1, 1)).await, RegisterOutcome::Superseded);
        assert_eq!(register(proof(1, 3, 9)).await, RegisterOutcome::Registered);
        let wings = store.wings(&a).await.unwrap();
        assert_eq!(wings[0].statement, proof(1, 3, 9).statement);
    }

    #[tokio::test]
    async fn a_second_revocation_finds_nothing_and_a_new_login_starts_a_new_generation() {
        let (store, _dir) = store().await;
        let enrolment = enrolment(7);
        store.enrol(&account("a"), &enrolment, now()).await.unwrap();
        store.enrol(&account("a"), &enrolment, now()).await.unwrap();
        let first = store.device(&enrolment.device).await.unwrap().unwrap();

        assert!(store.revoke_device(&enrolment.device, now()).await.unwrap());
        assert!(!store.revoke_device(&enrolment.device, now()).await.unwrap());
        assert_eq!(store.device(&enrolment.device).await.unwrap(), None);

        store.enrol(&account("a"), &enrolment, now()).await.unwrap();
        let again = store.device(&enrolment.device).await.unwrap().unwrap();
        assert_eq!((first.generation, again.generation), (1, 2));
    }

    #[tokio::test]
    async fn a_signed_in_device_cannot_be_moved_to_another_account() {
        let (store, _dir) = store().await;
        let enrolment = enrolment(7);
        store.enrol(&account("a"), &enrolment, now()).await.unwrap();

        let moved = store.enrol(&account("b"), &enrolment, now()).await.unwrap();
        assert_eq!(moved, EnrolOutcome::OtherAccount);

        store.revoke_device(&enrolment.device, now()).await.unwrap();
        let moved = store.enrol(&account("b"), &enrolment, now()).await.unwrap();
        assert_eq!(moved, EnrolOutcome::Enrolled);
        let device = store.device(&enrolment.device).await.unwrap().unwrap();
        assert_eq!((device.account, device.generation), (account("b"), 2));
    }

    #[tokio::test]
    async fn what_was_stored_is_there_after_a_restart_in_a_private_file() {
        let (store, dir) = store().await;
        let path = dir.path().join("relay.db");
        store
            .enrol(&account("a"), &enrolment(7), now())
            .await
            .unwrap();
        store.close().await;

        let store = Store::open(&path).await.unwrap();

        assert!(store.device(&enrolment(7).device).await.unwrap().is_some());
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.path());
        }
    }

    #[tokio::test]
    async fn a_damaged_file_is_named_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.db");
        let garbage = vec![b'x'; 8192];
        std::fs::write(&path, &garbage).unwrap();

        let error = Store::open(&path).await.unwrap_err();

        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("relay.db"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), garbage);
    }

    #[tokio::test]
    async fn a_newer_schema_is_refused_and_kept() {
        let (store, dir) = store().await;
        sqlx::query(
            "INSERT INTO _sqlx_migrations \
             (version, description, success, checksum, execution_time) \
             VALUES (9999, 'later', TRUE, x'00', 0)",
        )
        .execute(&store.pool)
        .await
        .unwrap();
        store.close().await;

        let error = Store::open(&dir.path().join("relay.db")).await.unwrap_err();

        assert!(
            matches!(error, StoreError::Newer { version: 9999, .. }),
            "{error}"
        );
    }

    async fn store() -> (Store, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("relay.db")).await.unwrap();
        for name in ["a", "b"] {
            let enrolment = enrolment(name.as_bytes()[0]);
            store
                .enrol(&account(name), &enrolment, now())
                .await
                .unwrap();
        }
        (store, dir)
    }

    fn account(name: &str) -> AccountId {
        AccountId::new(name)
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn enrolment(n: u8) -> Enrolment {
        Enrolment {
            device: DeviceKey::from_bytes([n; 32]),
            client: ClientKey::from_bytes([n; 32]),
            client_signature: Signature::from_bytes([n; 64]),
            device_name: "a device".into(),
        }
    }

    fn proof(wing: u8, seq: u64, key: u8) -> WingProof {
        let identity = IdentityKey::from_bytes([wing; 32]);
        WingProof {
            identity,
            signature: Signature::from_bytes([0; 64]),
            statement: NoiseKeyStatement {
                wing: WingId::of_identity(&identity),
                key: NoiseKey::from_bytes([key; 32]),
                seq,
                signature: Signature::from_bytes([key; 64]),
            },
        }
    }
}
