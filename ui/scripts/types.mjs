// Writes src/wire from crates/wire; with --check it only fails where the two differ. The types are made
// elsewhere first, so that src/wire is whole at every moment and stays as it is when making them fails.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const committed = join(root, "ui/src/wire");
const made = mkdtempSync(join(tmpdir(), "teamlamp-types-"));

/** The files below a folder, by their path in it.
 * @param {string} folder */
function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

/** @param {string} file */
const same = (file) => readFileSync(join(made, file), "utf8") === readFileSync(join(committed, file), "utf8");

try {
  execFileSync("cargo", ["test", "--quiet", "-p", "teamlamp-wire", "--features", "ts", "--lib", "export_bindings"], {
    cwd: root,
    env: { ...process.env, TS_RS_EXPORT_DIR: made },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [fresh, kept] = [files(made), files(committed)];
  const old = kept.filter((file) => !fresh.includes(file));
  const changed = fresh.filter((file) => !kept.includes(file) || !same(file));
  if (process.argv.includes("--check")) {
    if (old.length + changed.length > 0) {
      console.error(`ui/src/wire is not what crates/wire says: ${[...old, ...changed].join(", ")}. Run \`npm run types\` in ui.`);
      process.exitCode = 1;
    }
  } else {
    for (const file of changed) cpSync(join(made, file), join(committed, file), { recursive: true });
    for (const file of old) rmSync(join(committed, file));
  }
} finally {
  rmSync(made, { recursive: true, force: true });
}
