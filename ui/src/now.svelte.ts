// The time that the window shows, once a second; still while nobody sees it.

export class NowClock {
  now = $state(Date.now());

  /** Runs until the returned function is called. */
  start(): () => void {
    const tick = () => {
      if (document.visibilityState === "visible") this.now = Date.now();
    };
    const timer = setInterval(tick, 1000);
    document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }
}
