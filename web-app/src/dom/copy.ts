// Copying to the clipboard, also where a page from disk may not use the newer interface.

import { element } from "../dom/element";

/** A button that copies what `text` gives, and says so. */
export function copyButton(label: string, done: string, text: () => string): HTMLButtonElement {
  const button = element("button", { type: "button", class: "small" }, label);
  button.addEventListener("click", () => {
    void copy(text()).then(() => {
      button.textContent = done;
      setTimeout(() => (button.textContent = label), 1500);
    });
  });
  return button;
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
