// News of a run in progress: the server says when there is a newer report, and how the job ended.

import type { App } from "../app";
import type { Document } from "../document/types";

interface News {
  state: "running" | "ended" | "died" | "stopped" | "past";
  version: number;
}

type Told = News["state"] | "lost";
let told: Told = "past";

/** Follow the run, if it is in progress; `show` gets each newer document. */
export async function follow(app: () => App, show: (document: Document) => void): Promise<void> {
  const first = await app().fetchJson<News>("api/state");
  if (first.state !== "running") return;
  let version = first.version;
  let news = first;
  tell(app(), news.state);
  const source = new EventSource(app().at("api/live"));
  const renew = async () => {
    if (news.version === version || isBusy()) return;
    const asked = news.version;
    show(await app().fetchJson<Document>("api/report"));
    version = asked; // only now: what failed is asked for again
    tell(app(), news.state);
  };
  source.onmessage = (event: MessageEvent<string>) => {
    news = JSON.parse(event.data) as News;
    tell(app(), news.state);
    if (news.state !== "running") source.close();
    void renew();
  };
  source.onerror = () => {
    if (news.state === "running") tell(app(), "lost");
  };
  document.addEventListener("focusout", () => void renew());
}

function tell(app: App, state: Told): void {
  told = state;
  tellAgain(app);
}

/** Say how the job stands: drawing the frame anew makes an empty place for it. */
export function tellAgain(app: App): void {
  const state = told;
  const place = document.querySelector(".live");
  if (!place || state === "past") return;
  const words = { running: app.words.live, ended: app.words.ended, died: app.words.died, stopped: app.words.stopped, lost: app.words.lost };
  place.textContent = words[state];
  place.className = state === "running" ? "live on" : "live off";
}

/** What somebody types, chooses or looks into is not taken from under the hands. */
function isBusy(): boolean {
  const used = document.activeElement?.matches("input, select, .boxes .frame") ?? false;
  return used || document.querySelector(".perfetto iframe") !== null;
}
