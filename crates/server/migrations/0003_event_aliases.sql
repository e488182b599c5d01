-- Ids under which something was published that an event of another id had told already. They go with it.
CREATE TABLE event_aliases (
  team_id TEXT NOT NULL REFERENCES teams (id),
  id TEXT NOT NULL,
  publisher TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  PRIMARY KEY (team_id, id),
  FOREIGN KEY (team_id, sequence) REFERENCES events (team_id, sequence) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX event_aliases_by_sequence ON event_aliases (team_id, sequence);

-- The newest event that told what a session does, where its current one tells of people's attention.
ALTER TABLE event_resources ADD COLUMN told_sequence INTEGER;
