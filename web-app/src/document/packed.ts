// Data that a file holds beside its report, packed until they are asked for.

/** The JSON in the element of a name, which is packed with gzip; null without one. */
export async function unpacked<T>(name: string): Promise<T | null> {
  const text = document.getElementById(name)?.textContent?.trim();
  if (!text) return null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as T;
}
