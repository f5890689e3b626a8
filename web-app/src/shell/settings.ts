// What the reader chooses once for all runs: the editor that places in the code open in.

import type { App } from "../app";
import { element } from "../dom/element";
import { EDITORS, editorTemplate, isEditor, keepEditorTemplate } from "./editor";

/** The settings; `changed` is told when they are kept. */
export function showSettings(app: App, changed: () => void): void {
  const { words } = app;
  const now = editorTemplate();
  const options = Object.entries(EDITORS).map(([name, template]) => element("option", { value: template, selected: template === now }, name));
  const own = element("option", { value: "", selected: !Object.values(EDITORS).includes(now) }, words.otherEditor);
  const choice = element("select", { id: "editor" }, ...options, own);
  const template = element("input", { id: "editor-address", type: "text", value: now, required: true, spellcheck: "false", autocomplete: "off" });
  const wrong = element("p", { class: "failure", role: "alert" });
  const keep = element("button", { value: "keep" }, words.keep);
  const close = element("button", { type: "button" }, words.close);
  const form = element(
    "form", { class: "settings", method: "dialog" },
    element("label", { for: "editor" }, words.editor), choice,
    element("label", { for: "editor-address" }, words.editorHint), template,
    wrong, element("p", {}, keep, " ", close),
  );
  const dialog = element("dialog", { "aria-label": words.settings }, element("h2", {}, words.settings), form);
  choice.addEventListener("change", () => {
    if (choice.value) template.value = choice.value;
    else template.select();
  });
  template.addEventListener("input", () => (choice.value = Object.values(EDITORS).find((one) => one === template.value) ?? ""));
  form.addEventListener("submit", (event) => {
    const text = template.value.trim();
    wrong.textContent = isEditor(text) && text.includes("{file}") ? "" : words.noEditor;
    if (wrong.textContent) {
      event.preventDefault();
      template.focus();
      return;
    }
    keepEditorTemplate(text);
    changed();
  });
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
