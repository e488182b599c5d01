// Serves the built interfaces under the app's content security policy, and starts the browser.

import { createServer, type Server } from "node:http";
import { readFile } from "node:fs/promises";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    origin: string;
    shipped: string;
    browser: string;
  }
}

const root = fileURLToPath(new URL("../../..", import.meta.url));
export const screenshots = join(root, "target/ui-screenshots");

/** What the app's window is allowed, as the app says it: nothing from elsewhere, nothing inline. */
const { csp } = (JSON.parse(readFileSync(join(root, "src-tauri/tauri.conf.json"), "utf8")) as { app: { security: { csp: Record<string, string> } } }).app.security;
const POLICY = Object.entries(csp)
  .map(([directive, sources]) => `${directive} ${sources}`)
  .join("; ");

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".woff2": "font/woff2",
};

function serve(folder: string): Promise<Server> {
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url ?? "/", "http://x").pathname);
    readFile(join(folder, path === "/" ? "index.html" : path)).then(
      (body) => {
        response.writeHead(200, {
          "content-type": TYPES[extname(path)] ?? TYPES[".html"],
          "content-security-policy": POLICY,
        });
        response.end(body);
      },
      () => response.writeHead(404).end(),
    );
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

function originOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the test server has no port");
  return `http://127.0.0.1:${address.port}`;
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folders = [join(root, "target/ui-recorded"), join(root, "ui/dist")];
  for (const folder of folders) {
    if (!existsSync(join(folder, "index.html"))) throw new Error(`${folder} is not built: run \`npm run build\` first`);
  }
  mkdirSync(screenshots, { recursive: true });
  const servers = await Promise.all(folders.map(serve));
  // Playwright makes and removes the profile; HOME is a scratch one, so that nothing of the person is read.
  const home = mkdtempSync(join(tmpdir(), "teamlamp-ui-"));
  const browser = await chromium.launchServer({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    env: { ...process.env, HOME: home } as Record<string, string>,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  project.provide("origin", originOf(servers[0] as Server));
  project.provide("shipped", originOf(servers[1] as Server));
  project.provide("browser", browser.wsEndpoint());
  return async () => {
    await browser.close();
    for (const server of servers) server.close();
    rmSync(home, { recursive: true, force: true });
  };
}
