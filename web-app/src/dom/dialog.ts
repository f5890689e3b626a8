// A dialog over the page, which goes when it is closed.

import { element } from "./element";

/** Show children in a dialog named `label`, above a button that closes it. */
export function showDialog(label: string, close: string, ...children: (Node | string)[]): void {
  const button = element("button", { type: "button" }, close);
  const dialog = element("dialog", { "aria-label": label }, ...children, button);
  button.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
