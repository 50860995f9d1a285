-- All that a relay keeps: who may sign in, with which keys, and which wings exist.
-- Nothing about what wings run is ever stored.

CREATE TABLE accounts (
    account    TEXT PRIMARY KEY NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE devices (
    device           BYTEA PRIMARY KEY NOT NULL,
    account          TEXT NOT NULL REFERENCES accounts (account),
    client           BYTEA NOT NULL,
    client_signature BYTEA NOT NULL,
    device_name      TEXT NOT NULL,
    -- Grows with each enrolment that must not revive older tokens.
    generation       BIGINT NOT NULL,
    enrolled_at      BIGINT NOT NULL,
    revoked_at       BIGINT
);

CREATE INDEX devices_by_account ON devices (account);

CREATE TABLE wings (
    wing_id             TEXT PRIMARY KEY NOT NULL,
    account             TEXT NOT NULL REFERENCES accounts (account),
    identity            BYTEA NOT NULL,
    noise_key           BYTEA NOT NULL,
    statement_signature BYTEA NOT NULL,
    seq                 BIGINT NOT NULL,
    first_seen          BIGINT NOT NULL,
    last_seen           BIGINT NOT NULL
);

CREATE INDEX wings_by_account ON wings (account);
