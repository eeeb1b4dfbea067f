-- What is read in one statement is of one version: a row of `keywake_fleet` is locked by whoever changes the rows of its fleet.
create table keywake_fleet (
    fleet text primary key,
    version bigint not null,
    -- The hash that places owners without a row.
    hash_version integer not null
);

create table keywake_row (
    fleet text not null,
    owner text not null,
    -- The process that runs the owner. Readers check it against their own fleet.
    index bigint not null constraint keywake_row_index check (index between 0 and 4294967295),
    pinned boolean not null default false,
    -- When the owner was last put on another process than before.
    moved_at timestamptz,
    primary key (fleet, owner)
);
