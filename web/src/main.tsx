import { QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { client } from './api/client.ts'
import { App } from './app.tsx'
import { Boundary } from './ui/boundary.tsx'
import './styles/tokens.css'
import './styles/base.css'
import './styles/parts.css'
import './styles/overlays.css'
import './styles/shell.css'
import './styles/start.css'
import './styles/chat.css'
import './styles/prompt.css'
import './styles/outcomes.css'
import './styles/access.css'
import './styles/pages.css'

const root = document.getElementById('root')
if (root)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <Boundary where="">
          <App />
        </Boundary>
      </QueryClientProvider>
    </StrictMode>,
  )
