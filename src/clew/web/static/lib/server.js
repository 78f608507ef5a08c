// What the page knows about its server: name of the store, counts, whether it may change anything. Shared by all screens.
import { useEffect, useState } from './html.js';
import { BASE, get } from './api.js';
import { listen } from './live.js';

let about = null;
const watchers = new Set();

function set(next) {
  about = next;
  for (const watcher of [...watchers]) watcher(about);
}

export async function loadServer() {
  try { const data = await get(BASE); set({ ...data, skew: data.now - Date.now() / 1000 }); } catch (problem) { if (!about) set({ problem }); }
}

/** The seconds that the server's clock is ahead of the browser's. */
export const clockOffset = () => about?.skew ?? 0;

export function useServer() {
  const [value, setValue] = useState(about);
  useEffect(() => { setValue(about); watchers.add(setValue); return () => watchers.delete(setValue); }, []);
  return value;
}

listen({
  server: ({ counts }) => about && set({ ...about, counts: { ...about.counts, ...counts } }),
  hello: ({ now }) => { if (about) set({ ...about, skew: now - Date.now() / 1000 }); if (!about || about.problem) loadServer(); },
});
