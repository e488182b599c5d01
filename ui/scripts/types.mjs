// Writes src/wire from crates/wire; with --check it writes elsewhere and fails where the two differ.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const committed = join(root, "ui/src/wire");
const check = process.argv.includes("--check");
const target = check ? mkdtempSync(join(tmpdir(), "teamlamp-types-")) : committed;

/** The files below a folder, by their path in it. */
function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

if (!check) rmSync(committed, { recursive: true, force: true });
try {
  execFileSync("cargo", ["test", "--quiet", "-p", "teamlamp-wire", "--features", "ts", "--lib", "export_bindings"], {
    cwd: root,
    env: { ...process.env, TS_RS_EXPORT_DIR: target },
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (check) {
    const [made, kept] = [files(target), files(committed)];
    const differing = [...new Set([...made, ...kept])].filter(
      (file) =>
        !made.includes(file) ||
        !kept.includes(file) ||
        readFileSync(join(target, file), "utf8") !== readFileSync(join(committed, file), "utf8"),
    );
    if (differing.length > 0) {
      console.error(`ui/src/wire is not what crates/wire says: ${differing.join(", ")}. Run \`npm run types\` in ui.`);
      process.exitCode = 1;
    }
  }
} finally {
  if (check) rmSync(target, { recursive: true, force: true });
}
