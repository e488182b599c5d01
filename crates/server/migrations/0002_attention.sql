-- When a person's 'mine' to a waiting session ends by itself.
ALTER TABLE sessions ADD COLUMN claimed_until INTEGER;
CREATE INDEX sessions_claimed ON sessions (claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX sessions_claimed_by ON sessions (claimed_by) WHERE claimed_by IS NOT NULL;
